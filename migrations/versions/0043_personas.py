"""Keep instructions that admins have named, and which of them a chat uses."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER, TEXT

revision: str = "0043"
down_revision = "0042"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "personas",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("name", TEXT, nullable=False, unique=True),
        sa.Column("text", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.add_column("instructions", sa.Column("persona", INTEGER, nullable=True))


def downgrade() -> None:
    op.drop_column("instructions", "persona")
    op.drop_table("personas")
