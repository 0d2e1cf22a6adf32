"""Backup, restore and retention in SQL."""
