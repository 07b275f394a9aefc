"""The terminal client: the reference client of the protocol, and the `handrail` command."""
