"""The agent: what a session is and does, with no knowledge of editors, servers or LSP."""
