"""Commands and the buttons they show."""
