"""Which replica works for which chats. On SQLite this table is empty: one process has all chats."""

from sqlalchemy import Column, Float, ForeignKey, Table

from bot.db.tables.base import Id, Integer, metadata

# Each hold of a share, in the order of its epochs. A transaction for a chat of the share requires that the
# hold under which its work began still stands.
share_holds = Table(
    "share_holds",
    metadata,
    Column("share", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),  # from 1
    Column("life", Id, ForeignKey("lives.id"), nullable=False),  # the process that holds it
    Column("began_at", Float, nullable=False),
    # When it was given away or taken over; of a process that died, that is later than it was seen last.
    Column("ended_at", Float),
)
