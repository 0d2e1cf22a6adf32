"""Queries: people and their limits."""
