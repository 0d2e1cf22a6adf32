"""JSON schemas of tools, checked and told."""
