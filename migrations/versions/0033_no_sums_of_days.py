"""Drop the sums of past days: the admins' page sums the ledger itself."""

from collections.abc import Sequence
from importlib import import_module

from alembic import op

revision: str = "0033"
down_revision = "0032"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    for table in ("daily_tools", "daily_calls", "daily_turns", "summed_days"):
        op.drop_table(table)


def downgrade() -> None:
    for made_by in ("0023_daily_sums", "0028_sums_of_callers"):
        import_module(f"migrations.versions.{made_by}").upgrade()
