"""The language server: the only floor that knows LSP and JSON-RPC."""

__version__ = "0.1.0"
