"""Backups, retention and restore."""
