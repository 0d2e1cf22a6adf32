"""Registered tools: sources, secrets, grants, approvals and allowances, and the audit log."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Table,
    UniqueConstraint,
    false,
    text,
    true,
)

from bot.db.tables.base import Id, Integer, Text, filter_rows, metadata

# Where registered tools come from.
sources = Table(
    "sources",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # file, openapi, endpoint, mcp_http or mcp_stdio
    Column("address", Text, nullable=False),
    Column("options", Text, nullable=False, server_default="{}"),  # JSON that depends on the kind
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("trouble", Text),  # why it does not work; NULL: it does
    Column("added_by", BigInteger),  # NULL: on the command line
    Column("added_at", Float, nullable=False),
)

# Tools of sources, as they were accepted; a built-in tool has a row only if an admin has set something.
tools = Table(
    "tools",
    metadata,
    Column("name", Text, primary_key=True),
    Column("source", Text, nullable=False),  # empty: a built-in tool
    Column("definition", Text, nullable=False),  # JSON
    Column("hash", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    # JSON: a changed definition that waits for an admin; until then the tool is suspended.
    Column("pending", Text),
    Column("flagged", Text),  # why its text looks suspicious; NULL: it does not, or an admin has reviewed it
    Column("rule", Text),  # JSON: an admin's own approval rule; NULL: the tool's
    Column("changed_at", Float, nullable=False),
    # Whether the person is sent the files that its service returns.
    Column("delivers", Boolean, nullable=False, server_default=false()),
    Index("ix_tools_source", "source"),
)

# Who may use a tool. Without a row: everyone a built-in tool, only admins any other.
grants = Table(
    "grants",
    metadata,
    Column("tool", Text, primary_key=True),
    Column("whom", Text, primary_key=True),  # everyone, admins, person or chat
    Column("number", BigInteger, primary_key=True, autoincrement=False, server_default=text("0")),
    Column("hash", Text, nullable=False),
    Column("given_by", BigInteger),  # NULL: on the command line
    Column("given_at", Float, nullable=False),
)

# Secrets of tools, encrypted with SECRETS_KEY.
secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("made_at", Float, nullable=False),
)

# Every change an admin made.
audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Float, nullable=False),
    Column("who", BigInteger),  # NULL: somebody on the command line
    Column("via", Text, nullable=False),  # telegram, command or page
    Column("what", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("before", Text),  # JSON
    Column("after", Text),  # JSON
    Index("ix_audit_at", "at"),
    sqlite_autoincrement=True,
)

# Incremented by every change that a running gateway has to notice.
revisions = Table(
    "revisions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", Integer, nullable=False),
)

# The question about a call that waits, or waited, for a person: only the arguments that were shown may run.
approvals = Table(
    "approvals",
    metadata,
    Column("id", Id, primary_key=True),
    Column("turn", Id, ForeignKey("turns.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),  # JSON
    Column("hash", Text, nullable=False),
    Column("asker", BigInteger, nullable=False),
    Column("lane", Text, nullable=False),
    Column("who", Text, nullable=False),  # asker or admins: who may answer
    Column("why", Text, nullable=False),  # why it is asked
    # What an "Allow here" covers: a host, a hash of the arguments, or * (any arguments); NULL: not offered.
    Column("binding", Text),
    Column("asked_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("answer", Text),  # once, here, given, denied, expired or stopped; NULL: open
    Column("reply", Text),  # what the person said to a question of the model's own, if given
    Column("answered_by", BigInteger),
    Column("answered_at", Float),
    UniqueConstraint("turn", "step", "call_id"),
    Index("ix_approvals_open", "expires_at", **filter_rows("answer IS NULL")),
    sqlite_autoincrement=True,
)

# "Allow here": such calls of a person in a chat need no approval until then.
allowances = Table(
    "allowances",
    metadata,
    Column("id", Id, primary_key=True),
    Column("person", BigInteger, nullable=False),
    Column("chat", BigInteger, nullable=False),
    Column("tool", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("binding", Text, nullable=False),  # a host, a hash of the arguments, or * for any arguments
    Column("until", Float, nullable=False),
    Column("given_by", BigInteger, nullable=False),
    Column("given_at", Float, nullable=False),
    Index("ix_allowances_person_chat_tool", "person", "chat", "tool"),
    sqlite_autoincrement=True,
)
