"""The wire: receives updates and reads them, delivers messages; only here is python-telegram-bot used."""
