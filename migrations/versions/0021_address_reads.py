"""Count the reads that tell whom a group's message is for among the unusual calls, as other typed reads."""

from collections.abc import Sequence

from alembic import op

from migrations import filter_rows

revision: str = "0021"
down_revision = "0020"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEX = "ix_model_calls_odd"
_ODD = (
    "(prompt_tokens IS NULL OR cached_tokens IS NULL OR completion_tokens IS NULL OR reasoning_tokens IS NULL"
    " OR usage_partial OR outcome IS NULL OR outcome <> 'ok' OR purpose {purposes}"
    " OR finish_reason = 'length')"
)


def upgrade() -> None:
    _make_index("IN ('decision', 'address')")


def downgrade() -> None:
    _make_index("= 'decision'")


def _make_index(purposes: str) -> None:
    op.drop_index(_INDEX, "model_calls")
    op.create_index(_INDEX, "model_calls", ["turn"], **filter_rows(_ODD.format(purposes=purposes)))
