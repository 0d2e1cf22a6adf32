"""Tools of MCP servers: connections that are kept, tools listed and called; `server` is the entry point.

The SDK is slow to import and large. Only `connection`, `stdio` and `http` import it; `server` imports them
when a connection is wanted.
"""
