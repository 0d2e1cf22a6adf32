"""Handles inbox items: one runner for each kind (update, reminder, task)."""
