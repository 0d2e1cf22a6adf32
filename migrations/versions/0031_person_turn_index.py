"""Find a person's turns by when they ended: one that waited for days has calls of today."""

from collections.abc import Sequence

from alembic import op

revision: str = "0031"
down_revision = "0030"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("ix_turns_person_ended_at", "turns", ["person", "ended_at"])
    op.drop_index("ix_turns_person_began_at", "turns")


def downgrade() -> None:
    op.create_index("ix_turns_person_began_at", "turns", ["person", "began_at"])
    op.drop_index("ix_turns_person_ended_at", "turns")
