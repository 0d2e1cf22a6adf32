"""Measures an endpoint with and without the gateway, and what the gateway decides; for owners."""
