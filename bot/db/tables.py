"""Every table of the house, in SQLAlchemy Core. Owns names and constraints; migrations bring a database to this shape.

Times are seconds since the epoch (UTC); JSON is kept as text; tokens are the server's counts, NULL where it gave none.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only under INTEGER

# new → running → done; an item that cannot be read or keeps failing is dead. Found running at start: new again.
# parked: its turn waits for a person; the answer makes it new.
inbox = Table(
    "inbox",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("update_id", BigInteger, unique=True),
    Column("kind", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("lane", Text),  # NULL: a control item, taken at once
    Column("sender", BigInteger),
    Column("body", Text),  # the raw update; dropped when it turns out to be a stranger's
    Column("state", Text, nullable=False, server_default="new"),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("stale", Boolean, nullable=False, server_default=text("0")),  # older than ten minutes when it was fetched
    Column("stopped", Boolean, nullable=False, server_default=text("0")),  # a later /stop concerns this item
    Column("not_before", Float),  # a pasted part waits until then for the rest
    Column("turn", _Id),
    Column("received_at", Float, nullable=False),  # when getUpdates had returned
    Column("seen_at", Float),  # when it was first passed over, for its lane was busy; NULL: it never was
    Column("taken_at", Float),
    Column("asked_at", Float),  # when the chat was asked for consent to answer it
    Column("agreed_at", Float),
    Column("retaken_at", Float),  # the first time after that
    Column("done_at", Float),
    Column("error", Text),
    Column("spans", Text),  # JSON: what was measured of its turn; NULL: there is no turn, or its account is made
    Column("job", _Id),  # the job whose due time this is
    Column("due_at", Float),
    Index("ix_inbox_state_lane_id", "state", "lane", "id"),
    Index("ix_inbox_turn", "turn"),
    Index("ix_inbox_unaccounted", "id", sqlite_where=text("spans IS NOT NULL")),
    # A due time is one row; messages, which have none, are left out of the index and pay nothing for it.
    Index("ix_inbox_job_due_at", "job", "due_at", unique=True, sqlite_where=text("job IS NOT NULL")),
    sqlite_autoincrement=True,
)

# A lane's current conversation; /new moves on to the next number.
lanes = Table(
    "lanes",
    metadata,
    Column("lane", Text, primary_key=True),
    Column("conversation", Integer, nullable=False, server_default=text("1")),
    Column("notes", Text),  # the chat's notes as they stood when the conversation began; NULL: not begun
    Column("think", Text),  # auto, on or off, as the chat wants it; NULL: as the house does
    Column("tools", Text),  # JSON: names its prompt offers, fixed between cuts; NULL: not begun
    Column("consent", Text),  # what may go to an endpoint outside, in words (text notes files images); NULL: not asked
    # Of this conversation; a /new forgets them.
    Column("cut", _Id),  # the newest turn that has left the prompt
    Column("shortened", _Id),  # the newest turn whose tool results are short and whose images are left out
    Column("told_cut", Boolean, nullable=False, server_default=text("0")),  # the chat knows that something has left
    Column("summary", Text),  # of what has left, as the prompt tells it
    Column("summary_ahead", Text),  # of what leaves next, made in time
    Column("summary_upto", _Id),  # the newest turn that summary_ahead tells of
)

# running → ended, or failed: it was set aside. parked: it waits for a person.
# replaced: a /retry took its place, it is left out of the history.
turns = Table(
    "turns",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("item", _Id, nullable=False, unique=True),  # its first inbox item
    Column("lane", Text, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("conversation", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("ending", Text),  # answered, cut, steps, seconds, stopped, …
    Column("tools", Text, nullable=False),  # names offered, a JSON list
    Column("thinking", Boolean, nullable=False),
    Column("thinking_why", Text, nullable=False),
    Column("endpoint", Text, nullable=False, server_default="main"),  # main or fallback
    Column("endpoint_why", Text),  # why it is there; NULL: there is no other
    Column("prompt", Integer),  # estimated tokens of its first prompt, to be held against what the server counted
    Column("size", Integer, nullable=False, server_default=text("0")),  # estimated tokens of the whole of it
    Column("short", Integer, nullable=False, server_default=text("0")),  # and with tool results shortened
    Column("counted", Integer),  # what the server counted for its first prompt
    Column("used", Text, nullable=False, server_default="[]"),  # names of the tools it called, a JSON list
    Column("received_at", Float, nullable=False),
    Column("began_at", Float, nullable=False),
    Column("ended_at", Float),
    Index("ix_turns_lane_conversation_state", "lane", "conversation", "state", "ended_at"),
    Index("ix_turns_person_began_at", "person", "began_at"),
    Index("ix_turns_received_at", "received_at", "person", "lane", "thinking", "ending"),
    sqlite_autoincrement=True,
)

messages = Table(
    "messages",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("turn", _Id, ForeignKey("turns.id"), nullable=False),
    Column("role", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("calls", Text),  # JSON: [{id, name, arguments}]
    Column("call_id", Text),
    Column("reasoning", Text),
    Column("made_at", Float, nullable=False),
    Index("ix_messages_turn", "turn", "id"),
    sqlite_autoincrement=True,
)

# What came with a message. An image is kept as the model gets it, a document and a voice as their text.
attachments = Table(
    "attachments",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("message", _Id, ForeignKey("messages.id"), nullable=False),
    Column("kind", Text, nullable=False),  # image, document or sound
    Column("name", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("data", LargeBinary),  # of an image
    Column("text", Text),  # of a document or a voice: all that was read, also what the prompt leaves out
    Index("ix_attachments_message", "message"),
    sqlite_autoincrement=True,
)

# What few calls are: something is not known of them, they did not end as they should, or they cost no canvas.
ODD = (
    "(prompt_tokens IS NULL OR cached_tokens IS NULL OR completion_tokens IS NULL OR reasoning_tokens IS NULL"
    " OR usage_partial OR outcome IS NULL OR outcome <> 'ok' OR purpose = 'decision' OR finish_reason = 'length')"
)

# Opened before the request leaves, closed with the message it gave: a call can fail, but it cannot vanish.
model_calls = Table(
    "model_calls",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("turn", _Id),
    Column("step", Integer, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("again", Text),  # why the same step was asked once more
    Column("endpoint", Text, nullable=False),
    Column("fingerprint", Text),
    Column("model", Text, nullable=False),
    Column("thinking", Boolean, nullable=False),
    Column("tools_offered", Integer, nullable=False),
    Column("prompt_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("usage_partial", Boolean, nullable=False, server_default=text("0")),
    Column("usage_missing", Text),  # why a count is unknown
    Column("created_at", Float, nullable=False),
    Column("seat_at", Float),
    Column("first_block_at", Float),
    Column("last_block_at", Float),
    Column("ended_at", Float),
    Column("server_ms", Text),  # JSON: the server's own timings
    Column("blocks", Integer, nullable=False, server_default=text("0")),
    Column("finish_reason", Text),
    Column("outcome", Text),  # NULL while it runs; ok, cut, cancelled, failed
    Column("error", Text),
    Column("request_id", Text),
    Column("chars_system", Integer),
    Column("chars_tools", Integer),
    Column("chars_notes", Integer),
    Column("chars_history", Integer),
    Column("images", Integer, nullable=False, server_default=text("0")),
    Column("reply", Text),  # JSON: the reply as it came, so that a turn can go on after a crash
    # All that sums need, so that a report reads no reply on its way.
    Index(
        "ix_model_calls_turn",
        *("turn", "id", "purpose", "model", "thinking", "created_at", "seat_at", "ended_at"),
        *("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "usage_partial", "outcome"),
    ),
    Index("ix_model_calls_again", "turn", "again", sqlite_where=text("again IS NOT NULL")),
    Index("ix_model_calls_odd", "turn", sqlite_where=text(ODD)),
    Index("ix_model_calls_created_at", "created_at"),
    sqlite_autoincrement=True,
)

# wanted → running → done. `running` without a result after a crash: its outcome is unknown.
tool_calls = Table(
    "tool_calls",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("turn", _Id, ForeignKey("turns.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("result", Text),
    Column("size", Integer),  # characters of the result before it was cut; NULL: there is none, or it is older
    Column("whole", Text),  # a result that was cut, as it came, up to a bound
    Column("approval", _Id),  # the question a person was asked about it; NULL: nobody was
    Column("began_at", Float),
    Column("ended_at", Float),
    UniqueConstraint("turn", "step", "call_id"),
    Index("ix_tool_calls_turn_name", "turn", "name", "outcome", "began_at", "ended_at"),
    sqlite_autoincrement=True,
)

# Pictures that tools found, as the model gets them.
tool_images = Table(
    "tool_images",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("turn", _Id, ForeignKey("turns.id"), nullable=False),
    Column("call_id", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_tool_images_turn_call_id", "turn", "call_id"),
    sqlite_autoincrement=True,
)

# new → sending → open → done; the first send of a part with unknown outcome is unknown, a refused one failed.
# `body` is what is wanted (JSON of a Part), NULL: taken back. `final`: the wanted body will not change any more.
# A row that is not final shows a running turn; its body is what it was opened with, NULL for a mere status line.
outbox = Table(
    "outbox",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("item", _Id),  # the inbox item it answers; NULL for a notice
    Column("part", Integer, nullable=False, server_default=text("0")),
    Column("lane", Text, nullable=False),
    Column("reply_to", BigInteger),
    Column("body", Text),
    Column("final", Boolean, nullable=False),
    Column("state", Text, nullable=False, server_default="new"),
    Column("message_id", BigInteger),
    Column("about", _Id, unique=True),  # a notice: the row whose outcome is unknown
    Column("copy_of", _Id, unique=True),  # the row of unknown outcome it sends again
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("error", Text),
    Column("made_at", Float, nullable=False),
    Column("sent_at", Float),  # when the first send was answered
    Column("done_at", Float),  # when the final body stood there, or was given up
    UniqueConstraint("item", "part"),
    Index("ix_outbox_state_lane_id", "state", "lane", "id"),
    sqlite_autoincrement=True,
)

# The account of a turn, settled when its last part was delivered or given up: seconds that add up to `whole`.
accounts = Table(
    "accounts",
    metadata,
    Column("turn", _Id, ForeignKey("turns.id"), primary_key=True, autoincrement=False),
    Column("settled_at", Float, nullable=False),
    Column("whole", Float, nullable=False),
    Column("intake", Float, nullable=False),
    Column("lane_wait", Float, nullable=False),
    Column("seat_wait", Float, nullable=False),
    Column("first_canvas", Float, nullable=False),
    Column("further_canvases", Float, nullable=False),
    Column("tools", Float, nullable=False),
    Column("approval_wait", Float, nullable=False),
    Column("telegram", Float, nullable=False),
    Column("back_off", Float, nullable=False),
    Column("down", Float, nullable=False),
    Column("own", Float, nullable=False),
)

# A row a process, so that the time without one is known. The heartbeat says how long a killed one lived.
lives = Table(
    "lives",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("began_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("ended_at", Float),  # NULL: it runs, or it was killed
    Index("ix_lives_began_at", "began_at"),
    sqlite_autoincrement=True,
)

# How long turns took, counted into buckets of a logarithmic scale (bot.usage.buckets): percentiles need no sort.
durations = Table(
    "durations",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),  # days since the epoch (UTC) of the turn's receipt
    Column("kind", Text, primary_key=True),  # a column of accounts, `whole` too; a turn without any of it is left out
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)

# What the endpoint's own counters said, held against ours: a row each time they were read.
readings = Table(
    "readings",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("read_at", Float, nullable=False),
    Column("since", Float),  # the reading before; NULL: there was none, or the server began anew: nothing to compare
    Column("totals", Text, nullable=False),  # JSON: the counters as they stood, NULL those the server lacks
    Column("running", Integer, nullable=False),  # calls of ours under way then, so that sums differ by what they take
    Column("prompt_seen", BigInteger),  # what the server counted since then, whoever asked
    Column("cached_seen", BigInteger),
    Column("generated_seen", BigInteger),
    Column("requests_seen", BigInteger),
    Column("steps_seen", BigInteger),  # denoising steps, with one commit a canvas
    Column("committed_seen", BigInteger),  # tokens of whole canvases
    Column("prompt_own", BigInteger),  # what we counted in the same time
    Column("cached_own", BigInteger),
    Column("generated_own", BigInteger),
    Column("requests_own", BigInteger),
    Column("gap", BigInteger),  # tokens the server counted more than we; below zero: fewer
    Column("steps_per_canvas", Float),  # the server's own; NULL: no canvas, or not told apart from other reads
    Column("why", Text, nullable=False),
    Index("ix_readings_endpoint_read_at", "endpoint", "read_at"),
    sqlite_autoincrement=True,
)

# How many canvases somebody may use a day; the settings hold where there is no row.
limits = Table(
    "limits",
    metadata,
    Column("person", BigInteger, primary_key=True, autoincrement=False),  # 0: every member without a row of their own
    Column("canvases", Integer),  # NULL: as many as they like
    Column("set_by", BigInteger, nullable=False),
    Column("set_at", Float, nullable=False),
)

people = Table(
    "people",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # Telegram's user id
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),  # admin, member or blocked
    Column("since", Float, nullable=False),
    Column("let_in_by", BigInteger),
    Column("reachable", Boolean, nullable=False, server_default=text("1")),  # false once they block the bot
    Column("zone", Text),  # an IANA name; NULL: not asked yet
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

# Strangers who knocked; the code they were shown is kept as a hash, for an hour.
strangers = Table(
    "strangers",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("code_hash", Text, nullable=False, unique=True),
    Column("asked_at", Float, nullable=False),
    Column("told_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

notes = Table(
    "notes",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("number", Integer, nullable=False),  # what people call it: 1, 2, 3 in its lane
    Column("text", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("person", BigInteger, nullable=False),
    Column("made_at", Float, nullable=False),
    UniqueConstraint("lane", "number"),
    sqlite_autoincrement=True,
)

# active → done when no due time is left; paused by its person, or by the house (why_paused).
jobs = Table(
    "jobs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("kind", Text, nullable=False),  # reminder, task or house
    Column("name", Text, unique=True),  # of a house job; NULL: a person's
    Column("person", BigInteger),  # whose it is; NULL: the house's
    Column("lane", Text),
    Column("text", Text, nullable=False),
    Column("rule", Text),  # DTSTART (local, without a zone) and RRULE, a line each; NULL: once
    Column("zone", Text, nullable=False, server_default="UTC"),
    Column("next_due", Float),  # NULL: never again
    Column("missed", Text, nullable=False, server_default="once"),  # once on return, or skip
    Column("state", Text, nullable=False, server_default="active"),
    Column("why_paused", Text),
    Column("failures", Integer, nullable=False, server_default=text("0")),  # in a row
    Column("made_at", Float, nullable=False),
    Column("last_due", Float),
    Column("last_done", Float),
    Index("ix_jobs_due", "next_due", sqlite_where=text("state = 'active'")),
    Index("ix_jobs_person", "person"),
    sqlite_autoincrement=True,
)

# What admins were told last about a subject, so that they are told again only when it changes.
notices = Table(
    "notices",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("told_at", Float, nullable=False),
)

# Where registered tools come from.
sources = Table(
    "sources",
    metadata,
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # file, openapi, endpoint, mcp_http or mcp_stdio
    Column("address", Text, nullable=False),
    Column("options", Text, nullable=False, server_default="{}"),  # JSON, of its kind
    Column("enabled", Boolean, nullable=False, server_default=text("1")),
    Column("trouble", Text),  # why it does not work; NULL: it does
    Column("added_by", BigInteger),  # NULL: on the machine
    Column("added_at", Float, nullable=False),
)

# Tools of sources, as they were accepted; of the house's own a row only where an admin has set something.
tools = Table(
    "tools",
    metadata,
    Column("name", Text, primary_key=True),
    Column("source", Text, nullable=False),  # empty: the house's own
    Column("definition", Text, nullable=False),  # JSON
    Column("hash", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=text("1")),
    Column("pending", Text),  # JSON: a changed definition that waits for an admin; until then the tool is suspended
    Column("flagged", Text),  # why its words want a second look; NULL: they do not, or an admin has looked
    Column("rule", Text),  # JSON: an admin's own; NULL: the tool's
    Column("changed_at", Float, nullable=False),
    Index("ix_tools_source", "source"),
)

# Who may use a tool. Without a row: the house's own everyone, others admins only.
grants = Table(
    "grants",
    metadata,
    Column("tool", Text, primary_key=True),
    Column("whom", Text, primary_key=True),  # everyone, admins, person or chat
    Column("number", BigInteger, primary_key=True, autoincrement=False, server_default=text("0")),
    Column("hash", Text, nullable=False),
    Column("given_by", BigInteger),  # NULL: on the machine
    Column("given_at", Float, nullable=False),
)

# What tools need to know and nobody may read: sealed with SECRETS_KEY.
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
    Column("id", _Id, primary_key=True),
    Column("at", Float, nullable=False),
    Column("who", BigInteger),  # NULL: the machine
    Column("via", Text, nullable=False),  # telegram or command
    Column("what", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("before", Text),  # JSON
    Column("after", Text),  # JSON
    Index("ix_audit_at", "at"),
    sqlite_autoincrement=True,
)

# Counted up by every change a running gateway has to notice.
revisions = Table(
    "revisions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", Integer, nullable=False),
)

# A call that waits for a person, or waited: what was shown is what runs.
approvals = Table(
    "approvals",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("turn", _Id, ForeignKey("turns.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),  # JSON
    Column("hash", Text, nullable=False),
    Column("asker", BigInteger, nullable=False),
    Column("lane", Text, nullable=False),
    Column("who", Text, nullable=False),  # asker or admins: who may answer
    Column("why", Text, nullable=False),  # it asks
    Column("binding", Text),  # what an "Allow here" holds for: a host, a hash of the arguments, *; NULL: not to be had
    Column("asked_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("answer", Text),  # once, here, denied, expired or stopped; NULL: open
    Column("answered_by", BigInteger),
    Column("answered_at", Float),
    UniqueConstraint("turn", "step", "call_id"),
    Index("ix_approvals_open", "expires_at", sqlite_where=text("answer IS NULL")),
    sqlite_autoincrement=True,
)

# The messages in which it was asked, one a chat.
approval_messages = Table(
    "approval_messages",
    metadata,
    Column("approval", _Id, ForeignKey("approvals.id"), primary_key=True, autoincrement=False),
    Column("outbox", _Id, ForeignKey("outbox.id"), primary_key=True, autoincrement=False),
)

# "Allow here": such calls of a person in a chat do not ask until then.
allowances = Table(
    "allowances",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("person", BigInteger, nullable=False),
    Column("chat", BigInteger, nullable=False),
    Column("tool", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("binding", Text, nullable=False),  # a host, a hash of the arguments, or * for whatever arguments
    Column("until", Float, nullable=False),
    Column("given_by", BigInteger, nullable=False),
    Column("given_at", Float, nullable=False),
    Index("ix_allowances_person_chat_tool", "person", "chat", "tool"),
    sqlite_autoincrement=True,
)
