"""Keep sums of past days also by what the turns called: a model, a purpose or a tool.

Those that are stored are deleted; the gateway makes them again.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0028"
down_revision = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_KEYS = {"daily_turns": ["part", "day"], "daily_calls": ["part", "day"], "daily_tools": ["day"]}


def upgrade() -> None:
    op.execute("DELETE FROM summed_days")
    for table, keys in _KEYS.items():
        index = f"ix_{table}_{'_'.join(keys)}"
        op.execute(f"DELETE FROM {table}")  # noqa: S608 - constants only
        op.drop_index(index, table_name=table)
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("called", TEXT, nullable=False))
            if table == "daily_calls":
                batch.alter_column("model", existing_type=TEXT, nullable=True)
                batch.alter_column("purpose", existing_type=TEXT, nullable=True)
        op.create_index(f"{index}_called", table, [*keys, "called"])


def downgrade() -> None:
    op.execute("DELETE FROM summed_days")
    for table, keys in _KEYS.items():
        index = f"ix_{table}_{'_'.join(keys)}"
        op.execute(f"DELETE FROM {table}")  # noqa: S608 - constants only
        op.drop_index(f"{index}_called", table_name=table)
        with op.batch_alter_table(table) as batch:
            batch.drop_column("called")
            if table == "daily_calls":
                batch.alter_column("model", existing_type=TEXT, nullable=False)
                batch.alter_column("purpose", existing_type=TEXT, nullable=False)
        op.create_index(index, table, keys)
