"""Queries: what turns took."""
