"""Migrates a database on a PostgreSQL server, and says what is wrong with one that cannot be used."""

from sqlalchemy.engine import Connection

from bot.db.postgresql.connections import create_blocking_engine
from bot.db.postgresql.errors import translate_errors
from bot.db.schema import find_newest_revision, upgrade_connection
from bot.errors import SchemaUnknown, SettingsRefused, StoreUnavailable

_OLDEST_VERSION = 16
_LOCK = "1667329646, 1"  # held by the process that migrates; other programs may use other numbers


def migrate_server(url: str) -> None:
    """Migrate the database at `url`; of several processes that begin at once, one does, the others wait.

    Raises SchemaUnknown when a newer version wrote it, StoreUnavailable while the server cannot be used,
    SettingsRefused if this database never can.
    """
    newest = find_newest_revision()
    with translate_errors(), create_blocking_engine(url).connect() as connection:
        refuse_old_server(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
        _check_encoding(connection)
        if _read_revision(connection) == newest:
            return
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_LOCK})")  # until the connection is closed
        connection.commit()
        current = _read_revision(connection)
        if current is not None and current > newest:
            raise SchemaUnknown(
                f"The database has schema {current}, this version knows schemas up to {newest}. "
                "Run the newer version, or restore a dump made before it migrated."
            )
        if current != newest:
            upgrade_connection(connection)


def refuse_old_server(version_number: str) -> None:
    """Raise SettingsRefused for a server without what statements use; 160004 is the number of 16.4.

    IS JSON came with version 16.
    """
    version = int(version_number) // 10_000
    if version < _OLDEST_VERSION:
        raise SettingsRefused(
            f"The server that DATABASE_URL names is PostgreSQL {version}; {_OLDEST_VERSION} or newer is "
            "needed. Update the server, or name another one."
        )


def check_server(url: str) -> None:
    """Raise StoreUnavailable or SchemaUnknown unless there is a database of this version at `url`."""
    newest = find_newest_revision()
    current = read_server_revision(url)
    if current is None:
        raise StoreUnavailable(
            "The database that DATABASE_URL names is empty. `canvasgram run` sets it up, "
            "and so does `canvasgram migrate`."
        )
    if current > newest:
        raise SchemaUnknown(
            f"The database has schema {current}, this version knows up to {newest}. Use the newer version."
        )
    if current < newest:
        raise SchemaUnknown(
            f"The database has schema {current}, this version reads {newest}. "
            "Restart the gateway, which migrates it."
        )


def read_server_revision(url: str) -> str | None:
    """The revision the database at `url` is at; None for a new one. Raises StoreUnavailable."""
    with translate_errors(), create_blocking_engine(url).connect() as connection:
        return _read_revision(connection)


def _check_encoding(connection: Connection) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise SettingsRefused(
            f"DATABASE_URL: this database stores texts as {encoding}, which lacks most characters. "
            "Create one in UTF-8, for example: createdb --encoding=UTF8 --template=template0 canvasgram"
        )


def _read_revision(connection: Connection) -> str | None:
    """The revision the database is at; None for a new one."""
    if connection.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar_one() is None:
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()
    return None if revision is None else str(revision)
