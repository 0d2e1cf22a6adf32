"""An empty database as the house has it: migrated once for all tests, since that takes longer than most of
them.
"""

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.db.migrate import migrate


def placed(file: Path) -> str:
    """Put one there; returns its URL."""
    file.write_bytes(_migrated())
    return _url(file)


@functools.cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "empty.db")
        migrate(_url(file))
        assert [*Path(folder).iterdir()] == [file]  # no part of it lies beside
        return file.read_bytes()


def _url(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"
