"""Reminders, scheduled tasks and system jobs: when they are due and what came of them."""
