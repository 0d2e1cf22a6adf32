"""Reads DATABASE_URL: which database it names, and where that is."""

from pathlib import Path

from sqlalchemy.engine import make_url


def is_postgresql(url: str) -> bool:
    """Whether the URL names a PostgreSQL server."""
    return url.startswith("postgresql")


def parse_database_path(url: str) -> Path:
    """The file of a SQLite URL such as `sqlite+aiosqlite:///canvasgram.db`.

    Raises ValueError if the URL names none.
    """
    name = make_url(url).database
    if not name or name == ":memory:":
        raise ValueError(f"{url} names no file")
    return Path(name)
