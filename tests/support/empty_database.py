"""An empty database, migrated once for all tests: that takes longer than most of them."""

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.db.migrate import migrate


def place_empty_database(file: Path) -> str:
    """Write one to this file; returns its URL."""
    file.write_bytes(_build_empty_database())
    return _to_url(file)


@functools.cache
def _build_empty_database() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "empty.db")
        migrate(_to_url(file))
        assert [*Path(folder).iterdir()] == [file]  # it has no other files
        return file.read_bytes()


def _to_url(file: Path) -> str:
    return f"sqlite+aiosqlite:///{file}"
