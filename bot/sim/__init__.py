"""Simulated servers over real HTTP, a vLLM endpoint and a Bot API, for demo, tests and bench."""
