"""Keep what people think of answers, and find an answer by its message."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0013"
down_revision = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "verdicts",
        sa.Column("outbox", INTEGER, autoincrement=False, nullable=False),
        sa.Column("person", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", INTEGER, nullable=False),
        sa.Column("value", TEXT, nullable=True),
        sa.Column("item", INTEGER, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["outbox"], ["outbox.id"], name="fk_verdicts_outbox_outbox"),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name="fk_verdicts_turn_turns"),
        sa.PrimaryKeyConstraint("outbox", "person", name="pk_verdicts"),
    )
    op.create_index("ix_verdicts_turn", "verdicts", ["turn"])
    op.create_index("ix_outbox_message_id", "outbox", ["message_id"])


def downgrade() -> None:
    op.drop_index("ix_outbox_message_id", table_name="outbox")
    op.drop_table("verdicts")
