"""Record whether summaries were made of text of strangers.

Of earlier summaries it is unknown, so they count as such.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    for column in ("summary_outside", "summary_ahead_outside"):
        op.add_column("lanes", sa.Column(column, sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute("UPDATE lanes SET summary_outside = true WHERE summary IS NOT NULL")
    op.execute("UPDATE lanes SET summary_ahead_outside = true WHERE summary_ahead IS NOT NULL")


def downgrade() -> None:
    with op.batch_alter_table("lanes", schema=None) as batch_op:
        batch_op.drop_column("summary_ahead_outside")
        batch_op.drop_column("summary_outside")
