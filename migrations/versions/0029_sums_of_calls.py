"""Make the sums of past days again, which are now kept by model and purpose together as well."""

from collections.abc import Sequence

from alembic import op

revision: str = "0029"
down_revision = "0028"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    for table in ("summed_days", "daily_turns", "daily_calls", "daily_tools"):
        op.execute(f"DELETE FROM {table}")  # noqa: S608 - constants only


def downgrade() -> None:
    """Leave the sums: those that are kept in addition are read by nobody."""
