"""The assistant's own tools, one a file."""
