"""Prepares what users attach for a prompt: pictures are shrunk, documents and sound become text."""
