"""Name the other number of a group for what it is by now: the one that a supergroup got, or had before."""

from collections.abc import Sequence

from alembic import op

revision: str = "0036"
down_revision = "0035"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE groups RENAME COLUMN old_chat TO other_chat")


def downgrade() -> None:
    op.execute("ALTER TABLE groups RENAME COLUMN other_chat TO old_chat")
