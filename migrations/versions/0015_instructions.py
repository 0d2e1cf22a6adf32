"""Keep what chats ask of every answer, and the copy that a conversation began with."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0015"
down_revision = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "instructions",
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("set_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("lane", name="pk_instructions"),
    )
    op.add_column("lanes", sa.Column("instructions", TEXT, nullable=True))
    # Conversations that have begun began without any.
    op.execute("UPDATE lanes SET instructions = '' WHERE tools IS NOT NULL")


def downgrade() -> None:
    op.drop_column("lanes", "instructions")
    op.drop_table("instructions")
