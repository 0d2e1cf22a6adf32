"""The schema's revisions, and what brings a database to the newest.

Alembic is imported only when there is something to do, so that a gateway whose schema is current starts fast.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.engine import Connection

import migrations

_MIGRATIONS_FOLDER = Path(migrations.__file__).parent


def find_newest_revision() -> str:
    """The revision this version works with; file names of migrations begin with their revision."""
    return max(file.name.split("_")[0] for file in (_MIGRATIONS_FOLDER / "versions").glob("[0-9]*.py"))


def upgrade_connection(connection: Connection) -> None:
    """Migrate the database of this connection to the newest schema, and commit."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _write_no_bytecode():
        command.upgrade(config, "head")
    connection.commit()


@contextlib.contextmanager
def _write_no_bytecode() -> Iterator[None]:
    """Keep Python from caching the migrations that it reads while the block runs.

    On a full disk it leaves half a file (until 3.13.1), and then no later start can read the migration.
    """
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
