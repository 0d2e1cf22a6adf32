"""Add sources of tools, grants, approvals and the audit log."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    _registered()
    _asked()
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("who", sa.BigInteger(), nullable=True),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_table(
        "revisions",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_revisions")),
    )
    _pictures()
    op.add_column("lanes", sa.Column("tools", sa.Text(), nullable=True))
    op.add_column("tool_calls", sa.Column("size", sa.Integer(), nullable=True))
    op.add_column("tool_calls", sa.Column("whole", sa.Text(), nullable=True))
    op.add_column(
        "tool_calls",
        sa.Column("approval", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
    )


def _pictures() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "tool_images",
        sa.Column("id", identity, nullable=False),
        sa.Column("turn", identity, nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name=op.f("fk_tool_images_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_images")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tool_images_turn_call_id", "tool_images", ["turn", "call_id"])


def _registered() -> None:
    op.create_table(
        "sources",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), server_default="{}", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("1"), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("added_by", sa.BigInteger(), nullable=True),
        sa.Column("added_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sources")),
    )
    op.create_table(
        "tools",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("1"), nullable=False),
        sa.Column("pending", sa.Text(), nullable=True),
        sa.Column("flagged", sa.Text(), nullable=True),
        sa.Column("rule", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tools")),
    )
    op.create_index("ix_tools_source", "tools", ["source"])
    op.create_table(
        "grants",
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("whom", sa.Text(), nullable=False),
        sa.Column(
            "number", sa.BigInteger(), server_default=sa.text("0"), autoincrement=False, nullable=False
        ),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("given_by", sa.BigInteger(), nullable=True),
        sa.Column("given_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tool", "whom", "number", name=op.f("pk_grants")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )


def _asked() -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "approvals",
        sa.Column("id", identity, nullable=False),
        sa.Column("turn", identity, nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("call_id", "tool", "arguments", "hash")),
        sa.Column("asker", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("binding", sa.Text(), nullable=True),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("answered_by", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name=op.f("fk_approvals_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("turn", "step", "call_id", name=op.f("uq_approvals_turn_step_call_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_approvals_open", "approvals", ["expires_at"], sqlite_where=sa.text("answer IS NULL"))
    op.create_table(
        "approval_messages",
        sa.Column("approval", identity, autoincrement=False, nullable=False),
        sa.Column("outbox", identity, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["approval"], ["approvals.id"], name=op.f("fk_approval_messages_approval")),
        sa.ForeignKeyConstraint(["outbox"], ["outbox.id"], name=op.f("fk_approval_messages_outbox")),
        sa.PrimaryKeyConstraint("approval", "outbox", name=op.f("pk_approval_messages")),
    )
    op.create_table(
        "allowances",
        sa.Column("id", identity, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("chat", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("tool", "hash", "binding")),
        sa.Column("until", sa.Float(), nullable=False),
        sa.Column("given_by", sa.BigInteger(), nullable=False),
        sa.Column("given_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allowances")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_allowances_person_chat_tool", "allowances", ["person", "chat", "tool"])


def downgrade() -> None:
    with op.batch_alter_table("tool_calls", table_kwargs={"sqlite_autoincrement": True}) as batch_op:
        batch_op.drop_column("approval")
        batch_op.drop_column("whole")
        batch_op.drop_column("size")
    with op.batch_alter_table("lanes", schema=None) as batch_op:
        batch_op.drop_column("tools")
    for name in (
        "tool_images",
        "allowances",
        "approval_messages",
        "approvals",
        "secrets",
        "grants",
        "tools",
        "sources",
    ):
        op.drop_table(name)
    op.drop_table("revisions")
    op.drop_table("audit")
