"""Find the turns that called a tool by the tool's name."""

from collections.abc import Sequence

from alembic import op

revision: str = "0030"
down_revision = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEX = "ix_tool_calls_name_turn"


def upgrade() -> None:
    op.create_index(_INDEX, "tool_calls", ["name", "turn"])


def downgrade() -> None:
    op.drop_index(_INDEX, "tool_calls")
