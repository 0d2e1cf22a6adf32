"""Works on a database of a PostgreSQL server while no gateway does, in one transaction."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Table

from bot.db.database_url import describe_database
from bot.db.postgresql.connections import create_blocking_engine
from bot.db.postgresql.errors import translate_errors
from bot.db.postgresql.session_locks import LIST_REPLICAS, REPLICAS
from bot.errors import GatewayRunning

_LIMIT_WAIT = "SET LOCAL lock_timeout = '5s'"


@contextmanager
def open_offline(url: str, tables: Iterable[Table]) -> Iterator[Connection]:
    """A transaction in which nobody else writes to these tables; rolled back unless the block commits it.

    Raises GatewayRunning, and StoreUnavailable while the server cannot be used.
    """
    with translate_errors(), create_blocking_engine(url).connect() as connection:
        refuse_gateway(connection, url)
        names = ", ".join(map(connection.dialect.identifier_preparer.format_table, tables))
        connection.exec_driver_sql(_LIMIT_WAIT)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
        yield connection


def refuse_gateway(connection: Connection, url: str) -> None:
    """Raise GatewayRunning if one works on this database."""
    if connection.execute(LIST_REPLICAS, {"of": REPLICAS}).first() is not None:
        raise GatewayRunning(f"A gateway works on {describe_database(url)}. Stop it first.")
