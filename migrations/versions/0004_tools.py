"""Add sources of tools, grants, approvals and the audit log."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT, filter_rows

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    _registered()
    _asked()
    op.create_table(
        "audit",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("who", sa.BigInteger(), nullable=True),
        sa.Column("via", TEXT, nullable=False),
        sa.Column("what", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("before", TEXT, nullable=True),
        sa.Column("after", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_table(
        "revisions",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("number", INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_revisions")),
    )
    _pictures()
    op.add_column("lanes", sa.Column("tools", TEXT, nullable=True))
    op.add_column("tool_calls", sa.Column("size", INTEGER, nullable=True))
    op.add_column("tool_calls", sa.Column("whole", TEXT, nullable=True))
    op.add_column(
        "tool_calls",
        sa.Column("approval", INTEGER, nullable=True),
    )


def _pictures() -> None:
    op.create_table(
        "tool_images",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("turn", INTEGER, nullable=False),
        sa.Column("call_id", TEXT, nullable=False),
        sa.Column("media_type", TEXT, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name=op.f("fk_tool_images_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_images")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tool_images_turn_call_id", "tool_images", ["turn", "call_id"])


def _registered() -> None:
    op.create_table(
        "sources",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("options", TEXT, server_default="{}", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("trouble", TEXT, nullable=True),
        sa.Column("added_by", sa.BigInteger(), nullable=True),
        sa.Column("added_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sources")),
    )
    op.create_table(
        "tools",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("definition", TEXT, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("pending", TEXT, nullable=True),
        sa.Column("flagged", TEXT, nullable=True),
        sa.Column("rule", TEXT, nullable=True),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tools")),
    )
    op.create_index("ix_tools_source", "tools", ["source"])
    op.create_table(
        "grants",
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("whom", TEXT, nullable=False),
        sa.Column(
            "number", sa.BigInteger(), server_default=sa.text("0"), autoincrement=False, nullable=False
        ),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("given_by", sa.BigInteger(), nullable=True),
        sa.Column("given_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("tool", "whom", "number", name=op.f("pk_grants")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("sealed", TEXT, nullable=False),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )


def _asked() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("turn", INTEGER, nullable=False),
        sa.Column("step", INTEGER, nullable=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("call_id", "tool", "arguments", "hash")),
        sa.Column("asker", sa.BigInteger(), nullable=False),
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.Column("binding", TEXT, nullable=True),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("answer", TEXT, nullable=True),
        sa.Column("answered_by", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["turn"], ["turns.id"], name=op.f("fk_approvals_turn")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
        sa.UniqueConstraint("turn", "step", "call_id", name=op.f("uq_approvals_turn_step_call_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_approvals_open", "approvals", ["expires_at"], **filter_rows("answer IS NULL"))
    op.create_table(
        "approval_messages",
        sa.Column("approval", INTEGER, autoincrement=False, nullable=False),
        sa.Column("outbox", INTEGER, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["approval"], ["approvals.id"], name=op.f("fk_approval_messages_approval")),
        sa.ForeignKeyConstraint(["outbox"], ["outbox.id"], name=op.f("fk_approval_messages_outbox")),
        sa.PrimaryKeyConstraint("approval", "outbox", name=op.f("pk_approval_messages")),
    )
    op.create_table(
        "allowances",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("person", sa.BigInteger(), nullable=False),
        sa.Column("chat", sa.BigInteger(), nullable=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("tool", "hash", "binding")),
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
