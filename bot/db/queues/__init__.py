"""Queries: inbox, outbox, jobs."""
