"""The usage ledger: model calls, accounts of turns, process lifetimes, the server's counters."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Table, false, text

from bot.canvases import TYPED_READ_PURPOSES
from bot.db.tables.base import Id, Integer, Text, filter_rows, metadata

# The few calls that are unusual: a count is unknown, they did not end normally, or they cost no canvas.
ODD_CALL_SQL = (
    "(prompt_tokens IS NULL OR cached_tokens IS NULL OR completion_tokens IS NULL OR reasoning_tokens IS NULL"
    f" OR usage_partial OR outcome IS NULL OR outcome <> 'ok' OR purpose IN {TYPED_READ_PURPOSES}"
    " OR finish_reason = 'length')"
)

# Inserted before the request leaves, completed with its reply: a call can fail, but it cannot vanish.
model_calls = Table(
    "model_calls",
    metadata,
    Column("id", Id, primary_key=True),
    Column("turn", Id),
    Column("step", Integer, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("again", Text),  # why it repeats a call of the same step; NULL: it repeats none
    Column("endpoint", Text, nullable=False),
    Column("fingerprint", Text),
    Column("model", Text, nullable=False),
    Column("thinking", Boolean, nullable=False),
    Column("tools_offered", Integer, nullable=False),
    Column("prompt_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("usage_partial", Boolean, nullable=False, server_default=false()),
    Column("usage_missing", Text),  # why a count is unknown
    Column("created_at", Float, nullable=False),
    Column("seat_at", Float),
    Column("first_block_at", Float),
    Column("last_block_at", Float),
    Column("ended_at", Float),
    Column("server_ms", Text),  # JSON: the server's own timings
    Column("blocks", Integer, nullable=False, server_default=text("0")),
    # JSON: milliseconds from created_at to each of the first MAX_BLOCK_TIMES blocks; NULL: older, or none.
    Column("block_ms", Text),
    Column("finish_reason", Text),
    Column("outcome", Text),  # NULL while it runs; ok, cut, cancelled, failed
    Column("error", Text),
    Column("request_id", Text),
    Column("chars_system", Integer),
    Column("chars_tools", Integer),
    Column("chars_notes", Integer),
    Column("chars_history", Integer),
    Column("images", Integer, nullable=False, server_default=text("0")),
    Column("reply", Text),  # JSON: the reply as it came, so that a turn can continue after a crash
    Column("life", Id),  # of the process that makes a call without a turn; NULL: its turn tells who does
    # A covering index with all that sums need, so that a report does not read the large replies.
    Index(
        "ix_model_calls_turn",
        "turn",
        "id",
        "purpose",
        "model",
        "thinking",
        "created_at",
        "seat_at",
        "ended_at",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "reasoning_tokens",
        "usage_partial",
        "outcome",
    ),
    Index("ix_model_calls_again", "turn", "again", **filter_rows("again IS NOT NULL")),
    Index("ix_model_calls_odd", "turn", **filter_rows(ODD_CALL_SQL)),
    Index("ix_model_calls_created_at", "created_at"),
    sqlite_autoincrement=True,
)

# The account (breakdown) of a turn, made when its last part was delivered or given up: seconds that add up to
# `whole`.
accounts = Table(
    "accounts",
    metadata,
    Column("turn", Id, ForeignKey("turns.id"), primary_key=True, autoincrement=False),
    Column("settled_at", Float, nullable=False),
    Column("whole", Float, nullable=False),
    Column("intake", Float, nullable=False),
    Column("lane_wait", Float, nullable=False),
    Column("starting", Float, nullable=False, server_default=text("0")),
    Column("preflight", Float, nullable=False, server_default=text("0")),
    Column("seat_wait", Float, nullable=False),
    Column("server_queue", Float, nullable=False, server_default=text("0")),
    Column("first_canvas", Float, nullable=False),
    Column("further_canvases", Float, nullable=False),
    Column("failed_calls", Float, nullable=False, server_default=text("0")),
    Column("tools", Float, nullable=False),
    Column("approval_wait", Float, nullable=False),
    Column("telegram", Float, nullable=False),
    Column("back_off", Float, nullable=False),
    Column("down", Float, nullable=False),
    Column("own", Float, nullable=False),
)

# One row for each process, so that times without one are known. The heartbeat (seen_at) says how long a
# killed process lived.
lives = Table(
    "lives",
    metadata,
    Column("id", Id, primary_key=True),
    Column("began_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("ended_at", Float),  # NULL: it runs, or it was killed
    Index("ix_lives_began_at", "began_at"),
    sqlite_autoincrement=True,
)

# What the endpoint's own counters said, compared with ours: one row each time they were read.
readings = Table(
    "readings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("read_at", Float, nullable=False),
    # The time of the reading before; NULL: nothing to compare, and `why` says the reason.
    Column("since", Float),
    # JSON: by server its counters, null where it lacks one; {}: a server showed none.
    Column("totals", Text, nullable=False),
    # Calls of ours in progress at that time: sums differ by what these take.
    Column("running", Integer, nullable=False),
    Column("prompt_seen", BigInteger),  # what the server counted since then, for all its clients
    Column("cached_seen", BigInteger),
    Column("generated_seen", BigInteger),
    Column("requests_seen", BigInteger),
    Column("steps_seen", BigInteger),  # denoising steps, with one commit a canvas
    Column("committed_seen", BigInteger),  # tokens of whole canvases
    Column("prompt_own", BigInteger),  # what we counted over the same time
    Column("cached_own", BigInteger),
    Column("generated_own", BigInteger),
    Column("requests_own", BigInteger),
    Column("gap", BigInteger),  # tokens that the server counted more than we did; negative: fewer
    # The server's own; NULL: no canvas, or not distinguishable from typed reads.
    Column("steps_per_canvas", Float),
    Column("why", Text, nullable=False),
    Index("ix_readings_endpoint_read_at", "endpoint", "read_at"),
    sqlite_autoincrement=True,
)

# Answers that were to be read out. The text's account is over by then, so this is beside it.
speeches = Table(
    "speeches",
    metadata,
    Column("turn", Id, ForeignKey("turns.id"), primary_key=True, autoincrement=False),
    Column("chars", Integer, nullable=False),  # of what was read out; 0: there was nothing to read
    Column("wanted_at", Float, nullable=False),  # when the answer was stored
    Column("began_at", Float, nullable=False),  # when the service was asked, after a wait for a free place
    Column("ended_at", Float, nullable=False),
    Column("outcome", Text, nullable=False),  # ok or failed
    Index("ix_speeches_wanted_at", "wanted_at"),
)
