"""Add thinking modes of chats, the cut of their prompts, and attachments of messages."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:

    op.create_table(
        "attachments",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("message", INTEGER, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("media_type", TEXT, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.Column("text", TEXT, nullable=True),
        sa.ForeignKeyConstraint(["message"], ["messages.id"], name=op.f("fk_attachments_message")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("attachments", schema=None) as batch_op:
        batch_op.create_index("ix_attachments_message", ["message"], unique=False)

    with op.batch_alter_table("lanes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("think", TEXT, nullable=True))
        batch_op.add_column(sa.Column("consent", TEXT, nullable=True))
        batch_op.add_column(sa.Column("cut", INTEGER, nullable=True))
        batch_op.add_column(sa.Column("shortened", INTEGER, nullable=True))
        batch_op.add_column(sa.Column("told_cut", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("summary", TEXT, nullable=True))
        batch_op.add_column(sa.Column("summary_ahead", TEXT, nullable=True))
        batch_op.add_column(sa.Column("summary_upto", INTEGER, nullable=True))

    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.add_column(sa.Column("chars_notes", INTEGER, nullable=True))

    with op.batch_alter_table("turns", schema=None) as batch_op:
        batch_op.add_column(sa.Column("endpoint", TEXT, server_default="main", nullable=False))
        batch_op.add_column(sa.Column("endpoint_why", TEXT, nullable=True))
        batch_op.drop_column("opening")
        batch_op.add_column(sa.Column("prompt", INTEGER, nullable=True))
        batch_op.add_column(sa.Column("short", INTEGER, server_default=sa.text("0"), nullable=False))
        batch_op.add_column(sa.Column("counted", INTEGER, nullable=True))
        batch_op.add_column(sa.Column("used", TEXT, server_default="[]", nullable=False))


def downgrade() -> None:

    with op.batch_alter_table("turns", schema=None) as batch_op:
        batch_op.drop_column("used")
        batch_op.drop_column("counted")
        batch_op.drop_column("short")
        batch_op.drop_column("prompt")
        batch_op.add_column(sa.Column("opening", INTEGER, server_default=sa.text("0"), nullable=False))
        batch_op.drop_column("endpoint_why")
        batch_op.drop_column("endpoint")

    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.drop_column("chars_notes")

    with op.batch_alter_table("lanes", schema=None) as batch_op:
        batch_op.drop_column("summary_upto")
        batch_op.drop_column("summary_ahead")
        batch_op.drop_column("summary")
        batch_op.drop_column("told_cut")
        batch_op.drop_column("shortened")
        batch_op.drop_column("cut")
        batch_op.drop_column("consent")
        batch_op.drop_column("think")

    with op.batch_alter_table("attachments", schema=None) as batch_op:
        batch_op.drop_index("ix_attachments_message")

    op.drop_table("attachments")
