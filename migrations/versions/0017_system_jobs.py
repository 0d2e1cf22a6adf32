"""Call the kind of the gateway's own jobs by its name."""

from collections.abc import Sequence

from alembic import op

revision: str = "0017"
down_revision = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    _rename("house", "system")


def downgrade() -> None:
    _rename("system", "house")


def _rename(before: str, after: str) -> None:
    for table in ("inbox", "jobs"):
        op.execute(f"UPDATE {table} SET kind = '{after}' WHERE kind = '{before}'")  # noqa: S608
