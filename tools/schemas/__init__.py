"""JSON schemas of tools: read from functions, reduced from strangers' schemas, described in words."""
