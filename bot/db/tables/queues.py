"""The queues: inbox (to be done), jobs (to be due), outbox (to be sent); hooks that fill the inbox; and the
last notices to admins.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    Table,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.engine.default import DefaultExecutionContext

from bot.db.tables.base import Id, Integer, Text, filter_rows, metadata
from bot.domain import Lane, compute_share

FIRST_FILE_PART = 1000
"""The number of an item's first message with a file, beyond any that its answer may have."""


def compute_item_share(row: Mapping[str, Any]) -> int:
    """The share of an item that is inserted without one: its lane's, else its sender's."""
    lane = row.get("lane")
    return Lane.parse(lane).share if lane else compute_share(row.get("sender") or 0)


def _compute_share(context: DefaultExecutionContext) -> int:
    row: Mapping[str, Any] = context.get_current_parameters()  # type: ignore[no-untyped-call]
    return compute_item_share(row)


# new → running → done; an item that cannot be read or keeps failing is dead. An item found running at start
# is new again. parked: its turn waits for a person; the answer makes it new.
inbox = Table(
    "inbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("update_id", BigInteger, unique=True),
    Column("kind", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("lane", Text),  # NULL: a control item, claimed at once
    # Of the chat it came from; among several replicas, the one that holds the share handles it.
    Column("share", Integer, nullable=False, server_default=text("0"), default=_compute_share),
    Column("sender", BigInteger),
    Column("message_id", BigInteger),  # of the message that waits in the lane, or whose edit does
    Column("body", Text),  # the raw update; deleted when it turns out to be a stranger's
    Column("state", Text, nullable=False, server_default="new"),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    # Older than ten minutes when it was fetched, or when the gateway started.
    Column("stale", Boolean, nullable=False, server_default=false()),
    Column("stopped", Boolean, nullable=False, server_default=false()),  # a later /stop concerns this item
    Column("not_before", Float),  # a part of a paste waits until then for the rest
    Column("turn", Id),
    Column("received_at", Float, nullable=False),  # when getUpdates had returned
    Column("seen_at", Float),  # when it was first skipped because its lane was busy; NULL: it never was
    Column("taken_at", Float),  # when it was first claimed
    Column("asked_at", Float),  # when a person was last asked for consent or an approval
    Column("agreed_at", Float),  # when they answered
    Column("retaken_at", Float),  # when it was first claimed after that
    Column("done_at", Float),
    Column("error", Text),
    # JSON: what was measured of its turn; NULL: there is no turn, or its account is made.
    Column("spans", Text),
    Column("job", Id),  # the job whose due time this is
    Column("due_at", Float),
    Index("ix_inbox_state_lane_id", "state", "lane", "id"),
    Index("ix_inbox_turn", "turn"),
    Index("ix_inbox_lane_message_id", "lane", "message_id", **filter_rows("message_id IS NOT NULL")),
    Index("ix_inbox_unaccounted", "id", **filter_rows("spans IS NOT NULL")),
    # A due time is one row. Messages have no job, so the index leaves them out and they pay nothing for it.
    Index("ix_inbox_job_due_at", "job", "due_at", unique=True, **filter_rows("job IS NOT NULL")),
    sqlite_autoincrement=True,
)

# active → done when no due time is left; paused by its person, or by the gateway (why_paused); deleted by its
# person, who can undo that until retention removes the row.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),  # "reminder", "task" or "system" (a system job)
    Column("name", Text, unique=True),  # of a system job or a snooze; NULL: another job of a person
    Column("person", BigInteger),  # its owner; NULL: a system job
    Column("lane", Text),
    Column("text", Text, nullable=False),
    Column("rule", Text),  # DTSTART (local, without a zone) and RRULE, one line each; NULL: once
    Column("zone", Text, nullable=False, server_default="UTC"),
    Column("next_due", Float),  # NULL: never again
    Column("missed", Text, nullable=False, server_default="once"),  # once on return, or skip
    Column("state", Text, nullable=False, server_default="active"),
    Column("why_paused", Text),
    Column("failures", Integer, nullable=False, server_default=text("0")),  # in a row
    Column("made_at", Float, nullable=False),
    Column("last_due", Float),
    Column("last_done", Float),
    Column("question", Text),  # JSON: what its person was asked for, to change it; NULL: nothing
    Index("ix_jobs_due", "next_due", **filter_rows("state = 'active'")),
    Index("ix_jobs_person", "person"),
    sqlite_autoincrement=True,
)

# What other programs may post to. One that has ended keeps its row, for admins to see, until it is removed.
hooks = Table(
    "hooks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("secret_hash", Text, nullable=False),
    Column("person", BigInteger, nullable=False),  # the admin who made it, for whom its tasks are done
    Column("lane", Text, nullable=False),
    Column("task", Text),  # what is done with a post; NULL: it is said
    Column("posts_a_minute", Integer, nullable=False),  # over the sum of all replicas
    Column("max_bytes", Integer, nullable=False),
    Column("made_at", Float, nullable=False),
    Column("why_ended", Text),
    Index("ix_hooks_person", "person"),
    sqlite_autoincrement=True,
)

# The posts of the last day, which count against the limit of a minute; a key that is here is not done again.
hook_posts = Table(
    "hook_posts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("hook", Id, ForeignKey("hooks.id"), nullable=False),
    Column("key_hash", Text),  # of the Idempotency-Key; NULL: there was none
    Column("received_at", Float, nullable=False),
    UniqueConstraint("hook", "key_hash"),
    Index("ix_hook_posts_hook_received_at", "hook", "received_at"),
    sqlite_autoincrement=True,
)

# new → sending → open → done. unknown: the outcome of the first send is unknown; failed: Telegram refused it.
# `body` is the body to show (JSON of a Part), NULL: taken back. `final`: the body will not change any more.
# A row that is not final shows a running turn; its body is what it was opened with, NULL for a status line.
outbox = Table(
    "outbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("item", Id),  # the inbox item it answers; NULL for a notice
    Column("part", Integer, nullable=False, server_default=text("0")),
    Column("lane", Text, nullable=False),
    Column("reply_to", BigInteger),
    Column("body", Text),
    Column("final", Boolean, nullable=False),
    Column("state", Text, nullable=False, server_default="new"),
    Column("message_id", BigInteger),
    Column("about", Id, unique=True),  # of a question: the row of unknown outcome, or itself if repeatable
    Column("copy_of", Id, unique=True),  # the row of unknown outcome that it sends again
    Column("approval", Id),  # the question about a tool call that it asks, in one of its chats; NULL: none
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("error", Text),
    Column("made_at", Float, nullable=False),
    Column("sent_at", Float),  # when the first send was answered
    Column("done_at", Float),  # when the final body was shown, or was given up
    UniqueConstraint("item", "part"),
    Index("ix_outbox_state_lane_id", "state", "lane", "id"),
    Index("ix_outbox_message_id", "message_id"),
    Index("ix_outbox_approval", "approval", **filter_rows("approval IS NOT NULL")),
    sqlite_autoincrement=True,
)

# Files for people: those of a turn wait for its end, which gives them a message (a row of the outbox). The
# bytes are deleted a week after that was sent or given up, those of a command once it was sent; Telegram's
# id, by which it is sent again, stays.
outbox_files = Table(
    "outbox_files",
    metadata,
    Column("id", Id, primary_key=True),
    Column("outbox", Id, ForeignKey("outbox.id")),
    Column("turn", Id, ForeignKey("turns.id")),  # whose tool or answer it is of; NULL: a command's
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),  # photo, document, voice or too_large
    Column("caption", Text, nullable=False),
    Column("size", Integer, nullable=False),  # in bytes
    Column("file_id", Text),
    Column("made_at", Float, nullable=False),
    Column("data", LargeBinary),  # the last, so that the others are read without it
    Index("ix_outbox_files_outbox", "outbox"),
    Index("ix_outbox_files_turn", "turn"),
    sqlite_autoincrement=True,
)

# The last notice to admins about a subject, so that they are notified again only when it changes.
notices = Table(
    "notices",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("told_at", Float, nullable=False),
)
