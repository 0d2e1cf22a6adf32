"""Keep links to the page and its sessions in one table: both are hashes of tokens with a time."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0048"
down_revision = "0047"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    _create_table("page_tokens", sa.Column("kind", TEXT, nullable=False))
    op.execute(
        "INSERT INTO page_tokens (token_hash, kind, person, made_at, expires_at)"
        " SELECT token_hash, 'link', person, made_at, expires_at FROM page_links"
        " UNION ALL SELECT token_hash, 'session', person, made_at, expires_at FROM page_sessions"
    )
    op.drop_table("page_links")
    op.drop_table("page_sessions")


def downgrade() -> None:
    _create_table("page_links")
    _create_table("page_sessions")
    op.execute(
        "INSERT INTO page_links (token_hash, person, made_at, expires_at)"
        " SELECT token_hash, person, made_at, expires_at FROM page_tokens WHERE kind = 'link'"
    )
    op.execute(
        "INSERT INTO page_sessions (token_hash, person, made_at, expires_at)"
        " SELECT token_hash, person, made_at, expires_at FROM page_tokens WHERE kind = 'session'"
    )
    op.drop_table("page_tokens")


def _create_table(name: str, *more: sa.Column[str]) -> None:
    op.create_table(
        name,
        sa.Column("token_hash", TEXT, primary_key=True),
        *more,
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
    )
