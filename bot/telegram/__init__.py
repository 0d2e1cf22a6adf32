"""Receives updates, runs commands and delivers messages; only here is python-telegram-bot used."""
