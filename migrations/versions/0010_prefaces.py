"""Keep what stands before the answer of a running turn: after a restart it is said as well."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0010"
down_revision = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("preface", TEXT, server_default=sa.text("''"), nullable=False))


def downgrade() -> None:
    op.drop_column("turns", "preface")
