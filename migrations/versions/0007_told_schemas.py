"""Take what the model is told out of definitions: it is derived, and no part of what a grant holds for."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

BOUND_TABLES = ("grants", "allowances", "approvals")  # rows that hold for the hash of a definition


def upgrade() -> None:
    _rewrite_sources(_drop_told)
    _rewrite_tools(_drop_told)


def downgrade() -> None:
    _rewrite_sources(_tell_all)
    _rewrite_tools(_tell_all)


def _rewrite_sources(rewrite: Any) -> None:
    connection = op.get_bind()
    for name, text in connection.execute(sa.text("SELECT name, options FROM sources")).all():
        options = json.loads(text)
        for part in ("routes", "listing"):
            if part in options:
                options[part] = [rewrite(entry) for entry in options[part]]
        connection.execute(
            sa.text("UPDATE sources SET options = :options WHERE name = :name"),
            {"options": json.dumps(options, ensure_ascii=False), "name": name},
        )


def _rewrite_tools(rewrite: Any) -> None:
    connection = op.get_bind()
    query = sa.text(
        "SELECT name, definition, pending, hash FROM tools"
        " WHERE source IN (SELECT name FROM sources WHERE kind != 'file')"
    )
    for name, definition_text, pending_text, hash_before in connection.execute(query).all():
        definition = rewrite(json.loads(definition_text))
        pending = rewrite(json.loads(pending_text)) if pending_text else None
        hash_after = _hash(definition) if definition else ""
        connection.execute(
            sa.text(
                "UPDATE tools SET definition = :definition, pending = :pending, hash = :hash"
                " WHERE name = :name"
            ),
            {
                "definition": json.dumps(definition, ensure_ascii=False),
                "pending": json.dumps(pending, ensure_ascii=False) if pending else pending_text,
                "hash": hash_after,
                "name": name,
            },
        )
        for table in BOUND_TABLES:
            connection.execute(
                sa.text(f"UPDATE {table} SET hash = :after WHERE tool = :name AND hash = :before"),  # noqa: S608
                {"after": hash_after, "name": name, "before": hash_before},
            )


def _drop_told(definition: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in definition.items() if key != "told"}


def _tell_all(definition: dict[str, Any]) -> dict[str, Any]:
    """The earlier version tells what it finds here, and reduces it when the source is reloaded."""
    if not definition:
        return definition
    return {**definition, "told": definition.get("checked", definition.get("input_schema"))}


def _hash(definition: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
