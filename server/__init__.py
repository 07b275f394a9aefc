"""The language server: the only floor that knows LSP and JSON-RPC."""
