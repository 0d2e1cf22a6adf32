"""Keep sums of past days, so that the admins' page need not add up long periods row by row."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0023"
down_revision = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COUNTS = (
    "calls",
    "input_known",
    "cached_known",
    "output_known",
    "partial",
    "canvases_known",
    "costing",
    "failed",
)
_TOKENS = ("input", "cached", "cached_of", "output", "canvases")


def upgrade() -> None:
    op.create_table(
        "summed_days",
        sa.Column("part", TEXT, nullable=False),
        sa.Column("day", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("part", "day", name="pk_summed_days"),
    )
    op.create_table(
        "daily_turns",
        *_build_key_columns(),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("thinking", sa.Boolean(), nullable=False),
        *(sa.Column(name, INTEGER, nullable=False) for name in ("turns", "failed", "settled")),
        sa.PrimaryKeyConstraint("id", name="pk_daily_turns"),
    )
    op.create_index("ix_daily_turns_part_day", "daily_turns", ["part", "day"])
    op.create_table(
        "daily_calls",
        *_build_key_columns(),
        sa.Column("endpoint", TEXT, nullable=True),
        sa.Column("thinking", sa.Boolean(), nullable=True),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("purpose", TEXT, nullable=False),
        *(sa.Column(name, INTEGER, nullable=False) for name in _COUNTS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _TOKENS),
        sa.PrimaryKeyConstraint("id", name="pk_daily_calls"),
    )
    op.create_index("ix_daily_calls_part_day", "daily_calls", ["part", "day"])
    op.create_table(
        "daily_tools",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("day", INTEGER, nullable=False),
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("refusal", TEXT, nullable=True),
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("thinking", sa.Boolean(), nullable=False),
        sa.Column("calls", INTEGER, nullable=False),
        sa.Column("timed", INTEGER, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_daily_tools"),
    )
    op.create_index("ix_daily_tools_day", "daily_tools", ["day"])


def _build_key_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("part", TEXT, nullable=False),
        sa.Column("day", INTEGER, nullable=False),
        sa.Column("slot", INTEGER, nullable=True),
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("lane", TEXT, nullable=True),
    ]


def downgrade() -> None:
    for table in ("daily_tools", "daily_calls", "daily_turns", "summed_days"):
        op.drop_table(table)
