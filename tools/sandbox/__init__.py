"""Runs work on hostile input in processes that can be killed."""
