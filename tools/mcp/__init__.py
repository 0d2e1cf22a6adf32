"""Tools of MCP servers: connections that are kept, what is listed, called and found. `server` is the door.

The SDK is slow to import and large. Only `line`, `pipe` and `remote` know it; `server` imports them when one
is wanted.
"""
