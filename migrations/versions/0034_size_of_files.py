"""Store who sent a file and how large it is, so that each person has a share of what is stored."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER

revision: str = "0034"
down_revision = "0033"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_LENGTHS = {
    "sqlite": "coalesce(length(data), 0) + coalesce(length(CAST(text AS BLOB)), 0)",
    "postgresql": "coalesce(octet_length(data), 0) + coalesce(octet_length(text), 0)",
}


def upgrade() -> None:
    zero = sa.text("0")
    op.add_column("attachments", sa.Column("person", sa.BigInteger(), nullable=False, server_default=zero))
    op.add_column("attachments", sa.Column("size", INTEGER, nullable=False, server_default=zero))
    size = _LENGTHS[op.get_bind().dialect.name]
    person = (
        "SELECT turns.person FROM messages JOIN turns ON turns.id = messages.turn "
        "WHERE messages.id = attachments.message"
    )
    op.execute(f"UPDATE attachments SET person = ({person}), size = {size}")  # noqa: S608 - constants only
    op.create_index("ix_attachments_person", "attachments", ["person", "size"])


def downgrade() -> None:
    op.drop_index("ix_attachments_person", "attachments")
    op.drop_column("attachments", "size")
    op.drop_column("attachments", "person")
