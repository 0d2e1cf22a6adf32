"""Tell the queue at the server from the first canvas that it was counted as."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0035"
down_revision = "0034"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "accounts", sa.Column("server_queue", sa.Float(), nullable=False, server_default=sa.text("0"))
    )


def downgrade() -> None:
    op.drop_column("accounts", "server_queue")
