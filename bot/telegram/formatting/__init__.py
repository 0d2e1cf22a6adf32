"""Markdown to Telegram entities. Pure."""
