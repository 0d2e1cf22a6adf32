"""Note in a message which question it asks: a table beside had nothing else."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, filter_rows

revision: str = "0047"
down_revision = "0046"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("approval", INTEGER, nullable=True))
    op.execute(
        "UPDATE outbox SET approval = approval_messages.approval"
        " FROM approval_messages WHERE approval_messages.outbox = outbox.id"
    )
    op.create_index("ix_outbox_approval", "outbox", ["approval"], **filter_rows("approval IS NOT NULL"))
    op.drop_table("approval_messages")


def downgrade() -> None:
    op.create_table(
        "approval_messages",
        sa.Column("approval", INTEGER, sa.ForeignKey("approvals.id"), primary_key=True, autoincrement=False),
        sa.Column("outbox", INTEGER, sa.ForeignKey("outbox.id"), primary_key=True, autoincrement=False),
    )
    op.execute(
        "INSERT INTO approval_messages (approval, outbox)"
        " SELECT approval, id FROM outbox WHERE approval IS NOT NULL"
    )
    op.drop_index("ix_outbox_approval", "outbox")
    op.drop_column("outbox", "approval")
