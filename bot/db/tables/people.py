"""Who may use the bot: people, invites, strangers who ask to be let in, daily quotas, logins of the page."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Table, true

from bot.db.tables.base import Integer, Text, metadata

people = Table(
    "people",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # Telegram's user id
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),  # admin, member or blocked; removed: only the name is kept
    Column("since", Float, nullable=False),
    Column("let_in_by", BigInteger),
    Column("reachable", Boolean, nullable=False, server_default=true()),  # false once they block the bot
    Column("zone", Text),  # an IANA name; NULL: not asked yet
    Column("language", Text),  # the one they chose; NULL: Telegram's
    Column("telegram_language", Text),
)

# Single-use links: only the hash of the code is kept.
invites = Table(
    "invites",
    metadata,
    Column("code_hash", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("made_by", BigInteger),
    Column("made_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("used_by", BigInteger),
    Column("used_at", Float),
)

# Strangers who wrote; the code they were shown is valid for an hour, and only admins can use it.
strangers = Table(
    "strangers",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("code", Text, nullable=False, unique=True),
    Column("asked_at", Float, nullable=False),
    Column("told_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("language", Text),
)

# How many canvases a person may use a day; without a row the settings apply.
limits = Table(
    "limits",
    metadata,
    # 0: every member without a row of their own.
    Column("person", BigInteger, primary_key=True, autoincrement=False),
    Column("canvases", Integer),  # NULL: no limit
    Column("set_by", BigInteger, nullable=False),
    Column("set_at", Float, nullable=False),
)

# Logins of the admin page: single-use links, and the sessions they begin. Only hashes of tokens are kept.
page_tokens = Table(
    "page_tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # link or session
    Column("person", BigInteger),  # NULL: made on the command line, or begun by a link of it
    Column("made_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)
