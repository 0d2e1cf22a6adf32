"""Keep sums of past days, so that the admins' page need not add up long periods row by row."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
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
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("part", "day", name="pk_summed_days"),
    )
    op.create_table(
        "daily_turns",
        *_build_key_columns(),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("thinking", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("turns", "failed", "settled")),
        sa.PrimaryKeyConstraint("id", name="pk_daily_turns"),
    )
    op.create_index("ix_daily_turns_part_day", "daily_turns", ["part", "day"])
    op.create_table(
        "daily_calls",
        *_build_key_columns(),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("thinking", sa.Boolean(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _COUNTS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _TOKENS),
        sa.PrimaryKeyConstraint("id", name="pk_daily_calls"),
    )
    op.create_index("ix_daily_calls_part_day", "daily_calls", ["part", "day"])
    op.create_table(
        "daily_tools",
        sa.Column("id", _ID, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("refusal", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("thinking", sa.Boolean(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("timed", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_daily_tools"),
    )
    op.create_index("ix_daily_tools_day", "daily_tools", ["day"])


def _build_key_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", _ID, nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=True),
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=True),
    ]


def downgrade() -> None:
    for table in ("daily_tools", "daily_calls", "daily_turns", "summed_days"):
        op.drop_table(table)
