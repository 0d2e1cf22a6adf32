"""Read answers out: what a chat wants and allows, and what each took."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0038"
down_revision = "0037"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("lanes", sa.Column("speech_consent", TEXT, nullable=True))
    op.add_column("lanes", sa.Column("voice", TEXT, nullable=True))
    op.create_table(
        "speeches",
        sa.Column("turn", INTEGER, sa.ForeignKey("turns.id"), primary_key=True, autoincrement=False),
        sa.Column("chars", INTEGER, nullable=False),
        sa.Column("wanted_at", sa.Float, nullable=False),
        sa.Column("began_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
    )
    op.create_index("ix_speeches_wanted_at", "speeches", ["wanted_at"])


def downgrade() -> None:
    op.drop_table("speeches")
    op.drop_column("lanes", "voice")
    op.drop_column("lanes", "speech_consent")
