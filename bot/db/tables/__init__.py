"""All tables, in SQLAlchemy Core. Owns names and constraints; migrations bring a database to this schema.

One module for each subject; importing any of them imports all, so that `metadata` is always complete. Times
are seconds since the epoch (UTC); JSON is stored as text; tokens are the server's counts, NULL where it gave
none.
"""

from bot.db.tables.base import metadata
from bot.db.tables.conversations import (
    attachments,
    instructions,
    kept_files,
    kept_words,
    lanes,
    messages,
    notes,
    personas,
    tool_calls,
    tool_images,
    turns,
    verdicts,
)
from bot.db.tables.groups import group_speakers, group_texts, groups
from bot.db.tables.people import invites, limits, page_tokens, people, strangers
from bot.db.tables.queues import hook_posts, hooks, inbox, jobs, notices, outbox, outbox_files
from bot.db.tables.replicas import seat_requests, share_holds
from bot.db.tables.tools import (
    allowances,
    approvals,
    audit,
    grants,
    revisions,
    secrets,
    sources,
    tools,
)
from bot.db.tables.usage import (
    ODD_CALL_SQL,
    accounts,
    lives,
    model_calls,
    readings,
    speeches,
)

__all__ = [
    "ODD_CALL_SQL",
    "accounts",
    "allowances",
    "approvals",
    "attachments",
    "audit",
    "grants",
    "group_speakers",
    "group_texts",
    "groups",
    "hook_posts",
    "hooks",
    "inbox",
    "instructions",
    "invites",
    "jobs",
    "kept_files",
    "kept_words",
    "lanes",
    "limits",
    "lives",
    "messages",
    "metadata",
    "model_calls",
    "notes",
    "notices",
    "outbox",
    "outbox_files",
    "page_tokens",
    "people",
    "personas",
    "readings",
    "revisions",
    "seat_requests",
    "secrets",
    "share_holds",
    "sources",
    "speeches",
    "strangers",
    "tool_calls",
    "tool_images",
    "tools",
    "turns",
    "verdicts",
]
