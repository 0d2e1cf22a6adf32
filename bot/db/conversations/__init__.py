"""Queries: turns, calls, messages, notes."""
