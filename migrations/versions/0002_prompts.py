"""Add thinking modes of chats, the cut of their prompts, and attachments of messages."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:

    op.create_table(
        "attachments",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("message", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["message"], ["messages.id"], name=op.f("fk_attachments_message")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("attachments", schema=None) as batch_op:
        batch_op.create_index("ix_attachments_message", ["message"], unique=False)

    with op.batch_alter_table("lanes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("think", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("consent", sa.Text(), nullable=True))
        batch_op.add_column(
            sa.Column("cut", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True)
        )
        batch_op.add_column(
            sa.Column("shortened", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True)
        )
        batch_op.add_column(sa.Column("told_cut", sa.Boolean(), server_default=sa.text("0"), nullable=False))
        batch_op.add_column(sa.Column("summary", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("summary_ahead", sa.Text(), nullable=True))
        batch_op.add_column(
            sa.Column("summary_upto", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True)
        )

    with op.batch_alter_table("model_calls", schema=None) as batch_op:
        batch_op.add_column(sa.Column("chars_notes", sa.Integer(), nullable=True))

    with op.batch_alter_table("turns", schema=None) as batch_op:
        batch_op.add_column(sa.Column("endpoint", sa.Text(), server_default="main", nullable=False))
        batch_op.add_column(sa.Column("endpoint_why", sa.Text(), nullable=True))
        batch_op.drop_column("opening")
        batch_op.add_column(sa.Column("prompt", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("short", sa.Integer(), server_default=sa.text("0"), nullable=False))
        batch_op.add_column(sa.Column("counted", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("used", sa.Text(), server_default="[]", nullable=False))


def downgrade() -> None:

    with op.batch_alter_table("turns", schema=None) as batch_op:
        batch_op.drop_column("used")
        batch_op.drop_column("counted")
        batch_op.drop_column("short")
        batch_op.drop_column("prompt")
        batch_op.add_column(sa.Column("opening", sa.Integer(), server_default=sa.text("0"), nullable=False))
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
