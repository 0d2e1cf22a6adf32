"""Keep the number of the message that an inbox item is, so that an edit finds it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("message_id", sa.BigInteger(), nullable=True))
    op.execute(
        "UPDATE inbox SET message_id = json_extract(body, '$.message.message_id') "
        "WHERE kind = 'update' AND lane IS NOT NULL AND body IS NOT NULL"
    )
    op.create_index(
        "ix_inbox_lane_message_id",
        "inbox",
        ["lane", "message_id"],
        sqlite_where=sa.text("message_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_inbox_lane_message_id", "inbox")
    op.drop_column("inbox", "message_id")
