"""Migrates a database to the schema of this version."""

from bot.db.database_url import is_postgresql, parse_database_path
from bot.db.sqlite import lock
from bot.db.sqlite.migrate import migrate_file, read_current_revision


def migrate(url: str) -> str | None:
    """Migrate the database at `url`; returns the path of the copy made before, if one was.

    Raises SchemaUnknown when a newer version wrote it, StoreUnavailable while it cannot be used (locked, disk
    full), SettingsRefused if it can never be written.
    """
    if is_postgresql(url):
        from bot.db.postgresql.migrate import migrate_server

        migrate_server(url)
        return None
    copy = migrate_file(parse_database_path(url))
    return None if copy is None else str(copy)


def migrate_stopped(url: str) -> str | None:
    """Migrate as `migrate` does while no gateway runs on a file; raises GatewayRunning if one does."""
    if is_postgresql(url):
        return migrate(url)
    with lock.hold_lock(parse_database_path(url)):
        return migrate(url)


def migrate_new(url: str) -> None:
    """Migrate the database at `url` if it has no schema yet. Raises as `migrate` does."""
    if not has_schema(url):
        migrate(url)


def has_schema(url: str) -> bool:
    """Whether there is a database at `url` that was migrated before."""
    if is_postgresql(url):
        from bot.db.postgresql.migrate import read_server_revision

        return read_server_revision(url) is not None
    return read_current_revision(parse_database_path(url)) is not None
