"""Have the words of kept files indexed again: they lie in more buckets."""

from collections.abc import Sequence

from alembic import op

revision: str = "0049"
down_revision = "0048"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("DELETE FROM kept_words")


def downgrade() -> None:
    op.execute("DELETE FROM kept_words")
