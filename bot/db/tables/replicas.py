"""What replicas share: chats and seats. On SQLite these tables are empty: one process has all."""

from sqlalchemy import Column, Float, ForeignKey, Table

from bot.db.tables.base import Id, Integer, Text, metadata

# Each hold of a share, in the order of its epochs. A transaction for a chat of the share requires that the
# hold under which its work began still stands.
share_holds = Table(
    "share_holds",
    metadata,
    Column("share", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),  # from 1
    Column("life", Id, ForeignKey("lives.id"), nullable=False),  # the process that holds it
    Column("began_at", Float, nullable=False),
    # When it was given away; of a process that died: its last heartbeat.
    Column("ended_at", Float),
)

# Each model call that holds a seat of its endpoint, or waits for one. Once it has ended, its process may keep
# the seat for about a second, and give it to the next call: then the row is of that one. A row of a process
# that died is deleted by the others.
seat_requests = Table(
    "seat_requests",
    metadata,
    Column("endpoint", Text, primary_key=True),
    Column("life", Integer, primary_key=True, autoincrement=False),  # the process that makes the call
    Column("number", Integer, primary_key=True, autoincrement=False),  # of the call, in its process
    Column("lane", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("turn", Integer, nullable=False),  # of its lane, among those that wait with this priority
    Column("since", Float, nullable=False),  # when it got its seat; while it waits: when it was made
    Column("seat", Integer),  # from 1; NULL: it waits
    Column("given_at", Float),  # when another process gave it the seat, until its own has taken it
)
