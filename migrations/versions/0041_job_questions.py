"""Keep what a person was asked for who changes a reminder or a task."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0041"
down_revision = "0040"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("question", TEXT, nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "question")
