"""Several processes work on one PostgreSQL database; a chat belongs to one of them at a time.

Chats are divided into shares. A replica holds a share by an advisory lock, which PostgreSQL frees when the
replica's process dies; another one then takes the share over. On SQLite one process has all chats.
"""
