"""Keep why a tool call was not run; of earlier calls that is unknown."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import TEXT

revision: str = "0022"
down_revision = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEX = "ix_tool_calls_turn_name"


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("refusal", TEXT, nullable=True))
    op.drop_index(_INDEX, "tool_calls")
    columns = ["turn", "name", "outcome", "refusal", "began_at", "ended_at"]
    op.create_index(_INDEX, "tool_calls", columns)


def downgrade() -> None:
    op.drop_index(_INDEX, "tool_calls")
    op.create_index(_INDEX, "tool_calls", ["turn", "name", "outcome", "began_at", "ended_at"])
    op.drop_column("tool_calls", "refusal")
