"""Everything that is generated from the definition of the wire."""
