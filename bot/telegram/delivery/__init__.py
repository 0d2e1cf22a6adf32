"""Sends, edits and deletes messages, in order within a lane and within Telegram's rate limits."""
