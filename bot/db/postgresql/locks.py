"""The advisory locks of a database: PostgreSQL frees one when its session ends, however its process died."""

_CLASS = 1_667_329_646  # "canv": other programs may use advisory locks in the same database
MIGRATION = f"{_CLASS}, 1"
"""Held by the process that migrates."""
GATEWAY = f"{_CLASS}, 2"
"""Held by the running gateway."""
