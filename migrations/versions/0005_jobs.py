"""Add jobs, and the columns of inbox rows that their due times become."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT, filter_rows

revision: str = "0005"
down_revision = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", INTEGER, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=True),
        sa.Column("person", sa.BigInteger(), nullable=True),
        sa.Column("lane", TEXT, nullable=True),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("rule", TEXT, nullable=True),
        sa.Column("zone", TEXT, server_default="UTC", nullable=False),
        sa.Column("next_due", sa.Float(), nullable=True),
        sa.Column("missed", TEXT, server_default="once", nullable=False),
        sa.Column("state", TEXT, server_default="active", nullable=False),
        sa.Column("why_paused", TEXT, nullable=True),
        sa.Column("failures", INTEGER, server_default=sa.text("0"), nullable=False),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("last_due", sa.Float(), nullable=True),
        sa.Column("last_done", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("name", name=op.f("uq_jobs_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_due", "jobs", ["next_due"], **filter_rows("state = 'active'"))
    op.create_index("ix_jobs_person", "jobs", ["person"])
    op.add_column("people", sa.Column("zone", TEXT, nullable=True))
    op.add_column("inbox", sa.Column("job", INTEGER, nullable=True))
    op.add_column("inbox", sa.Column("due_at", sa.Float(), nullable=True))
    op.create_index(
        "ix_inbox_job_due_at", "inbox", ["job", "due_at"], unique=True, **filter_rows("job IS NOT NULL")
    )
    # An earlier migration copied the table without AUTOINCREMENT: after a restore ids of turns were reused.
    # Only SQLite copies a table to alter a column; the column is as it was.
    with op.batch_alter_table("turns", table_kwargs={"sqlite_autoincrement": True}) as batch_op:
        batch_op.alter_column("item", nullable=False)


def downgrade() -> None:
    op.drop_index("ix_inbox_job_due_at", "inbox")
    with op.batch_alter_table("inbox", table_kwargs={"sqlite_autoincrement": True}) as batch_op:
        batch_op.drop_column("due_at")
        batch_op.drop_column("job")
    with op.batch_alter_table("people", schema=None) as batch_op:
        batch_op.drop_column("zone")
    op.drop_table("jobs")
