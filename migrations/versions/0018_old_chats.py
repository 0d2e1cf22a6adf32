"""Keep the number that a group had before it became a supergroup, so that what began before finds it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("groups", sa.Column("old_chat", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("groups", "old_chat")
