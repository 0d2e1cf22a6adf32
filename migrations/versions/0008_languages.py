"""Store the language that each person chose, and the one that Telegram names for them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0008"
down_revision = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("people", sa.Column("language", TEXT))
    op.add_column("people", sa.Column("telegram_language", TEXT))
    op.add_column("strangers", sa.Column("language", TEXT))


def downgrade() -> None:
    with op.batch_alter_table("strangers", schema=None) as batch_op:
        batch_op.drop_column("language")
    with op.batch_alter_table("people", schema=None) as batch_op:
        batch_op.drop_column("telegram_language")
        batch_op.drop_column("language")
