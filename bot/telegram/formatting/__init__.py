"""Renders Markdown as text with Telegram entities, split into messages; nothing is lost. Pure."""
