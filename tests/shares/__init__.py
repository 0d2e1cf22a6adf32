"""How long others wait while one person sends as much as they can: `python -m tests.shares`."""
