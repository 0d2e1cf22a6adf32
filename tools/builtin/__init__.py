"""The assistant's own tools, one topic a file."""
