"""JSON schemas of tools: read from functions, reduced, described in words; arguments repaired by them."""
