"""When something is due: parses words for times, and computes and words rules of recurrence.

Pure; uses no table.
"""
