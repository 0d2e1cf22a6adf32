"""Keep a stranger's code as it is: admins compare it with what the stranger tells them."""

from collections.abc import Sequence

from alembic import op

revision: str = "0009"
down_revision = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("UPDATE strangers SET expires_at = 0")  # of these only hashes are known
    _rename_column("code_hash", "code")


def downgrade() -> None:
    op.execute("UPDATE strangers SET expires_at = 0")
    _rename_column("code", "code_hash")


def _rename_column(name: str, new_name: str) -> None:
    with op.batch_alter_table("strangers") as batch_op:
        batch_op.drop_constraint(f"uq_strangers_{name}", type_="unique")
        batch_op.alter_column(name, new_column_name=new_name)
    with op.batch_alter_table("strangers") as batch_op:
        batch_op.create_unique_constraint(f"uq_strangers_{new_name}", [new_name])
