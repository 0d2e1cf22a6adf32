"""Keep login links and sessions of the admin page, by the hashes of their tokens."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0020"
down_revision = "0019"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "page_links",
        sa.Column("token_hash", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_page_links"),
    )
    op.create_table(
        "page_sessions",
        sa.Column("token_hash", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_page_sessions"),
    )


def downgrade() -> None:
    op.drop_table("page_sessions")
    op.drop_table("page_links")
