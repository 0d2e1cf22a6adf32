"""A chaos run: people write to the whole gateway while it is killed and everything around it fails.

A judge reads from what they saw what went wrong. `python -m tests.chaos` makes a run.
"""
