"""Keep the files that are sent to people."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0014"
down_revision = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "outbox_files",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("outbox", INTEGER, nullable=True),
        sa.Column("turn", INTEGER, nullable=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("caption", TEXT, nullable=False),
        sa.Column("size", INTEGER, nullable=False),
        sa.Column("file_id", TEXT, nullable=True),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["outbox"], ["outbox.id"], name="fk_outbox_files_outbox"),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name="fk_outbox_files_turn"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_files"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_outbox_files_outbox", "outbox_files", ["outbox"])
    op.create_index("ix_outbox_files_turn", "outbox_files", ["turn"])


def downgrade() -> None:
    op.drop_table("outbox_files")
