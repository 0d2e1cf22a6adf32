"""Reads DATABASE_URL: which database it names, and what lies beside it."""

from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import make_url


def is_postgresql(url: str) -> bool:
    """Whether the URL names a database on a PostgreSQL server."""
    return url.startswith("postgresql")


def parse_database_path(url: str) -> Path:
    """The file of a SQLite URL such as `sqlite+aiosqlite:///canvasgram.db`.

    Raises ValueError if the URL names none.
    """
    name = make_url(url).database
    if is_postgresql(url) or not name or name == ":memory:":
        raise ValueError(f"{describe_database(url)} names no file")
    return Path(name)


def find_database_file(url: str) -> Path | None:
    """The file of the database; None: it is on a server."""
    return None if is_postgresql(url) else parse_database_path(url)


def find_data_folder(url: str) -> Path:
    """The folder for files that lie beside the database; of one on a server, the working folder."""
    file = find_database_file(url)
    return Path() if file is None else file.parent


def build_side_name(url: str, suffix: str) -> str:
    """The name of a file or folder that lies beside the database, such as `canvasgram.db-mcp`."""
    file = find_database_file(url)
    name = quote(make_url(url).database or "canvasgram", safe="") if file is None else file.name
    return f"{name}{suffix}"


def describe_database(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)
