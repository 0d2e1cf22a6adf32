"""Keep the number of a message that is read along, so that none is kept twice and an edit finds it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("group_texts", sa.Column("message_id", sa.BigInteger(), nullable=True))
    op.create_index("ix_group_texts_lane_message_id", "group_texts", ["lane", "message_id"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_group_texts_lane_message_id", table_name="group_texts")
    op.drop_column("group_texts", "message_id")
