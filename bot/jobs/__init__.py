"""Reminders, scheduled tasks and system jobs: when they are due, and how their runs ended."""
