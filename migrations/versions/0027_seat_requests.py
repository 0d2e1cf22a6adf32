"""Keep one queue for the seats of an endpoint, which all replicas share."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0027"
down_revision = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "seat_requests",
        sa.Column("endpoint", TEXT, nullable=False),
        sa.Column("life", INTEGER, autoincrement=False, nullable=False),
        sa.Column("number", INTEGER, autoincrement=False, nullable=False),
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("priority", INTEGER, nullable=False),
        sa.Column("turn", INTEGER, nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("seat", INTEGER, nullable=True),
        sa.Column("given_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("endpoint", "life", "number", name="pk_seat_requests"),
    )


def downgrade() -> None:
    op.drop_table("seat_requests")
