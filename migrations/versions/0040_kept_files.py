"""Keep files beyond their conversations, and their names as prompts begin with them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0040"
down_revision = "0039"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "kept_files",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("chat", sa.BigInteger(), nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("turn", INTEGER, nullable=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("pages", INTEGER, nullable=True),
        sa.Column("size", INTEGER, nullable=False),
        sa.Column("kept_at", sa.Float(), nullable=False),
        sa.Column("used_at", sa.Float(), nullable=False),
        sa.Column("text", TEXT, nullable=False),  # last: SQLite reads it to come to what stands behind it
        sa.UniqueConstraint("chat", "hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_kept_files_person", "kept_files", ["person", "size"])
    op.add_column("lanes", sa.Column("files", TEXT, nullable=True))


def downgrade() -> None:
    op.drop_column("lanes", "files")
    op.drop_table("kept_files")
