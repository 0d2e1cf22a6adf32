"""Simulated servers over real HTTP for demo, tests and bench: vLLM, a Bot API and a search engine."""
