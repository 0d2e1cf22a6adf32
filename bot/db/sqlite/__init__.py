"""The database as one SQLite file: connections, the lock of one gateway, copies before a migration."""
