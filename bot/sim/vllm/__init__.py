"""A simulated vLLM server."""
