"""Index the words of kept files, so that no search has to read them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from migrations import INTEGER

revision: str = "0042"
down_revision = "0041"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "kept_words",
        sa.Column("file", INTEGER, nullable=False, autoincrement=False),
        sa.Column("bucket", INTEGER, nullable=False, autoincrement=False),
        sa.Column("words", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("file", "bucket", name="pk_kept_words"),
        sa.ForeignKeyConstraint(["file"], ["kept_files.id"], name="fk_kept_words_file", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("kept_words")
