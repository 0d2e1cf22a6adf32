"""Add the account of every turn, and indexes that make the ledger quick to read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT, filter_rows

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_SUMMED = [
    *("turn", "id", "purpose", "model", "thinking", "created_at", "seat_at", "ended_at"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "usage_partial", "outcome"),
]
_ODD = (
    "(prompt_tokens IS NULL OR cached_tokens IS NULL OR completion_tokens IS NULL OR reasoning_tokens IS NULL"
    " OR usage_partial OR outcome IS NULL OR outcome <> 'ok' OR purpose = 'decision'"
    " OR finish_reason = 'length')"
)
_SECONDS = (
    *("settled_at", "whole", "intake", "lane_wait", "seat_wait", "first_canvas", "further_canvases", "tools"),
    *("approval_wait", "telegram", "back_off", "down", "own"),
)

_COUNTED = (
    *("prompt_seen", "cached_seen", "generated_seen", "requests_seen", "steps_seen", "committed_seen"),
    *("prompt_own", "cached_own", "generated_own", "requests_own", "gap"),
)


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("turn", INTEGER, autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Float(), nullable=False) for name in _SECONDS),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name=op.f("fk_accounts_turn")),
        sa.PrimaryKeyConstraint("turn", name=op.f("pk_accounts")),
    )
    op.create_table(
        "durations",
        sa.Column("day", INTEGER, autoincrement=False, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("bucket", INTEGER, autoincrement=False, nullable=False),
        sa.Column("count", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("day", "kind", "bucket", name=op.f("pk_durations")),
    )
    op.create_table(
        "lives",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("began_at", sa.Float(), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lives")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_lives_began_at", "lives", ["began_at"])
    for name in ("seen_at", "asked_at", "agreed_at", "retaken_at"):
        op.add_column("inbox", sa.Column(name, sa.Float(), nullable=True))
    op.add_column("inbox", sa.Column("spans", TEXT, nullable=True))
    op.create_index("ix_inbox_unaccounted", "inbox", ["id"], **filter_rows("spans IS NOT NULL"))
    op.create_table(
        "limits",
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("canvases", INTEGER),
        sa.Column("set_by", sa.BigInteger(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("person", name=op.f("pk_limits")),
    )
    op.create_index("ix_turns_received_at", "turns", ["received_at", "person", "lane", "thinking", "ending"])
    op.drop_index("ix_model_calls_turn", "model_calls")
    op.create_index("ix_model_calls_turn", "model_calls", _SUMMED)
    op.create_index(
        "ix_model_calls_again", "model_calls", ["turn", "again"], **filter_rows("again IS NOT NULL")
    )
    op.create_index("ix_model_calls_odd", "model_calls", ["turn"], **filter_rows(_ODD))
    op.create_index(
        "ix_tool_calls_turn_name", "tool_calls", ["turn", "name", "outcome", "began_at", "ended_at"]
    )
    op.create_table(
        "readings",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("read_at", sa.Float(), nullable=False),
        sa.Column("since", sa.Float(), nullable=True),
        sa.Column("totals", TEXT, nullable=False),
        sa.Column("running", INTEGER, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in _COUNTED),
        sa.Column("steps_per_canvas", sa.Float(), nullable=True),
        sa.Column("why", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_readings")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_readings_endpoint_read_at", "readings", ["endpoint", "read_at"])


def downgrade() -> None:
    op.drop_table("readings")
    op.drop_index("ix_tool_calls_turn_name", "tool_calls")
    op.drop_index("ix_model_calls_odd", "model_calls")
    op.drop_index("ix_model_calls_again", "model_calls")
    op.drop_index("ix_model_calls_turn", "model_calls")
    op.create_index("ix_model_calls_turn", "model_calls", ["turn", "id"])
    op.drop_index("ix_turns_received_at", "turns")
    op.drop_index("ix_inbox_unaccounted", "inbox")
    with op.batch_alter_table("inbox", schema=None) as batch_op:
        for name in ("spans", "retaken_at", "agreed_at", "asked_at", "seen_at"):
            batch_op.drop_column(name)
    op.drop_index("ix_lives_began_at", "lives")
    op.drop_table("lives")
    op.drop_table("limits")
    op.drop_table("durations")
    op.drop_table("accounts")
