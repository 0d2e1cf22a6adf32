"""Drop the counts of durations: percentiles of very many turns are those of a sample."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0046"
down_revision = "0044"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.drop_table("durations")


def downgrade() -> None:
    op.create_table(
        "durations",
        sa.Column("day", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("kind", TEXT, primary_key=True),
        sa.Column("bucket", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("count", INTEGER, nullable=False),
    )
