"""Let other programs post to chats: hooks, and what was posted in the last day."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0044"
down_revision = "0043"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "hooks",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("secret_hash", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("task", TEXT, nullable=True),
        sa.Column("posts_a_minute", INTEGER, nullable=False),
        sa.Column("max_bytes", INTEGER, nullable=False),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("why_ended", TEXT, nullable=True),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_hooks_person", "hooks", ["person"])
    op.create_table(
        "hook_posts",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("hook", INTEGER, sa.ForeignKey("hooks.id"), nullable=False),
        sa.Column("key_hash", TEXT, nullable=True),
        sa.Column("received_at", sa.Float(), nullable=False),
        sa.UniqueConstraint("hook", "key_hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_hook_posts_hook_received_at", "hook_posts", ["hook", "received_at"])


def downgrade() -> None:
    op.drop_table("hook_posts")
    op.drop_table("hooks")
