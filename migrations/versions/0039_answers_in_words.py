"""Keep what a person answers to a question of the model's own."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0039"
down_revision = "0038"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("approvals", sa.Column("reply", TEXT, nullable=True))


def downgrade() -> None:
    op.drop_column("approvals", "reply")
