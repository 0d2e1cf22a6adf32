"""Search earlier conversations, too; those that ended before only once their chat has been told."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER

revision: str = "0037"
down_revision = "0036"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("lanes", sa.Column("searchable_from", INTEGER, nullable=True))
    op.execute("UPDATE lanes SET searchable_from = conversation WHERE conversation > 1")


def downgrade() -> None:
    op.drop_column("lanes", "searchable_from")
