"""Keep the groups that the bot is in, the names of who speaks there, and what it reads along."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0011"
down_revision = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "groups",
        sa.Column("chat", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("added_by", sa.BigInteger(), nullable=True),
        sa.Column("let_in_by", sa.BigInteger(), nullable=True),
        sa.Column("speakers", TEXT, server_default="members", nullable=False),
        sa.Column("name", TEXT, nullable=True),
        sa.Column("reads_along", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("judges", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("hears_all", sa.Boolean(), nullable=True),
        sa.Column("can_send", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("chat", name="pk_groups"),
    )
    op.create_table(
        "group_speakers",
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("lane", "person", name="pk_group_speakers"),
        sa.UniqueConstraint("lane", "name", name="uq_group_speakers_lane_name"),
    )
    op.create_table(
        "group_texts",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("written_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_group_texts"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_group_texts_lane", "group_texts", ["lane", "id"])


def downgrade() -> None:
    op.drop_table("group_texts")
    op.drop_table("group_speakers")
    op.drop_table("groups")
