"""Divide chats into shares, each held by one replica at a time."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER

revision: str = "0025"
down_revision = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "share_holds",
        sa.Column("share", INTEGER, autoincrement=False, nullable=False),
        sa.Column("epoch", INTEGER, autoincrement=False, nullable=False),
        sa.Column("life", INTEGER, nullable=False),
        sa.Column("began_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["life"], ["lives.id"], name="fk_share_holds_life_lives"),
        sa.PrimaryKeyConstraint("share", "epoch", name="pk_share_holds"),
    )
    op.add_column("inbox", sa.Column("share", INTEGER, server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.drop_column("inbox", "share")
    op.drop_table("share_holds")
