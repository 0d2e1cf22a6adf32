"""Sending and editing messages within Telegram's limits."""
