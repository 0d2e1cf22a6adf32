"""Tell loading, questions before a turn and failed calls from the waits and canvases they were counted as."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0032"
down_revision = "0031"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COLUMNS = ("starting", "preflight", "failed_calls")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("accounts", sa.Column(name, sa.Float(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    for name in reversed(_COLUMNS):
        op.drop_column("accounts", name)
