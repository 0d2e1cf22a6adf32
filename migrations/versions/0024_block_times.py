"""Keep when each block of a model call came; of earlier calls only the first and the last are known."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0024"
down_revision = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("model_calls", sa.Column("block_ms", TEXT, nullable=True))


def downgrade() -> None:
    op.drop_column("model_calls", "block_ms")
