"""Backups, retention and restore: what system jobs do to keep the database sound and small."""
