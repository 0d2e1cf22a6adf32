"""Every table of the house, in SQLAlchemy Core. Owns names and constraints; migrations bring a database to
this shape.

A file a matter; importing one imports them all, so that `metadata` is whole for whoever holds it. Times are
seconds since the epoch (UTC); JSON is kept as text; tokens are the server's counts, NULL where it gave none.
"""

from bot.db.tables.base import metadata
from bot.db.tables.conversations import attachments, lanes, messages, notes, tool_calls, tool_images, turns
from bot.db.tables.people import invites, limits, people, strangers
from bot.db.tables.queues import inbox, jobs, notices, outbox
from bot.db.tables.tools import (
    allowances,
    approval_messages,
    approvals,
    audit,
    grants,
    revisions,
    secrets,
    sources,
    tools,
)
from bot.db.tables.usage import ODD_CALL_SQL, accounts, durations, lives, model_calls, readings

__all__ = [
    "ODD_CALL_SQL",
    "accounts",
    "allowances",
    "approval_messages",
    "approvals",
    "attachments",
    "audit",
    "durations",
    "grants",
    "inbox",
    "invites",
    "jobs",
    "lanes",
    "limits",
    "lives",
    "messages",
    "metadata",
    "model_calls",
    "notes",
    "notices",
    "outbox",
    "people",
    "readings",
    "revisions",
    "secrets",
    "sources",
    "strangers",
    "tool_calls",
    "tool_images",
    "tools",
    "turns",
]
