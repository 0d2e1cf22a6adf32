"""Keep the files that are sent to people."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "outbox_files",
        sa.Column("id", identity, nullable=False),
        sa.Column("outbox", identity, nullable=True),
        sa.Column("turn", identity, nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("caption", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("file_id", sa.Text(), nullable=True),
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
