"""Store which process makes a model call that belongs to no turn, so that others know when it is gone."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER

revision: str = "0026"
down_revision = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("model_calls", sa.Column("life", INTEGER, nullable=True))


def downgrade() -> None:
    op.drop_column("model_calls", "life")
