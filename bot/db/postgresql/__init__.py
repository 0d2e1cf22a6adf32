"""The database on a PostgreSQL server: connections, errors, locks and migrations.

Imported only where DATABASE_URL names such a server; its driver is the extra `postgresql`.
"""
