"""Keep the number of the message that an inbox item is, so that an edit finds it."""

import json
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import filter_rows

revision: str = "0012"
down_revision = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("message_id", sa.BigInteger(), nullable=True))
    _number_messages()
    op.create_index(
        "ix_inbox_lane_message_id",
        "inbox",
        ["lane", "message_id"],
        **filter_rows("message_id IS NOT NULL"),
    )


def _number_messages() -> None:
    connection = op.get_bind()
    query = "SELECT id, body FROM inbox WHERE kind = 'update' AND lane IS NOT NULL AND body IS NOT NULL"
    numbers = [
        {"id": item, "message_id": (json.loads(body).get("message") or {}).get("message_id")}
        for item, body in connection.execute(sa.text(query))
    ]
    if numbers:
        connection.execute(sa.text("UPDATE inbox SET message_id = :message_id WHERE id = :id"), numbers)


def downgrade() -> None:
    op.drop_index("ix_inbox_lane_message_id", "inbox")
    op.drop_column("inbox", "message_id")
