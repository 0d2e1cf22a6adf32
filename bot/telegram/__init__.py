"""The way to people; the only room that speaks python-telegram-bot."""
