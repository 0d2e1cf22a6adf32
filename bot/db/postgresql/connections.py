"""Opens connections to a PostgreSQL server, each with a session of its own."""

import select
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg.adapt import Loader
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.db.shares import PEER_SECONDS
from bot.errors import SettingsRefused

_CONNECT_SECONDS = 5
# Keepalive asks only while nothing is under way; what was sent would be sent again for minutes.
_PEER_MILLISECONDS = int(1000 * PEER_SECONDS)
_SET_KEEPALIVE = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; "
    f"SET tcp_user_timeout = {_PEER_MILLISECONDS}"
)
# A process that is paused in a write keeps the row of its hold locked, for which the next holder waits.
_SET_IDLE_LIMIT = "SET idle_in_transaction_session_timeout = '5s'"
_SET_READONLY = "SET default_transaction_read_only = on"
_CONNECT_ARGS = {
    "connect_timeout": _CONNECT_SECONDS,
    "application_name": "canvasgram",
    "client_encoding": "utf8",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _PEER_MILLISECONDS,
}
_ENGINE_OPTIONS: dict[str, Any] = {
    "connect_args": _CONNECT_ARGS,
    "poolclass": NullPool,
    "hide_parameters": True,
    "pool_reset_on_return": None,  # every transaction ends in a commit or a rollback
}


@dataclass(frozen=True, slots=True)
class ServerEngines:
    """What opens connections, a new one each time."""

    writer: AsyncEngine
    reader: AsyncEngine


def create_engines(url: str) -> ServerEngines:
    """Engines for the server that `url` names; none connects yet."""
    address = _parse_url(url)
    return ServerEngines(
        writer=_create_engine(address, f"{_SET_KEEPALIVE}; {_SET_IDLE_LIMIT}"),
        reader=_create_engine(address, f"{_SET_KEEPALIVE}; {_SET_READONLY}"),
    )


def _create_engine(address: URL, set_up: str) -> AsyncEngine:
    """An engine whose connections commit each statement, unless one begins a transaction."""
    engine = create_async_engine(address, isolation_level="AUTOCOMMIT", **_ENGINE_OPTIONS)
    event.listen(engine.sync_engine, "connect", partial(_set_up, set_up))
    return engine


async def connect_in_loop(url: str) -> psycopg.AsyncConnection[Any]:
    """Connect without SQLAlchemy; each statement is committed by itself."""
    address = _parse_url(url)
    positional, named = address.get_dialect()().create_connect_args(address)
    connection = await psycopg.AsyncConnection.connect(
        *positional, **{**named, **_CONNECT_ARGS}, autocommit=True
    )
    try:
        await connection.execute(_SET_KEEPALIVE)
    except BaseException:
        await connection.close()
        raise
    return connection


def create_blocking_engine(url: str) -> Engine:
    """An engine whose connections block the thread that uses them."""
    return create_engine(_parse_url(url), **_ENGINE_OPTIONS)


def is_lost(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server has ended an idle session: it says nothing else to one."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _set_up(statements: str, connection: Any, _record: object) -> None:
    """Set a new session up; a pooler may refuse such options of a connection."""
    connection.adapters.register_loader("numeric", _SumLoader)
    cursor = connection.cursor()
    cursor.execute(statements)
    cursor.close()


class _SumLoader(Loader):
    """Reads what PostgreSQL calls numeric: here that is always a sum of integers."""

    def load(self, data: bytes | bytearray | memoryview) -> int:
        return int(bytes(data))


def _parse_url(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):  # its text may quote the password
        raise SettingsRefused(
            "DATABASE_URL is no address of a server. Write % for odd characters of the password (@ is %40). "
            "Example: DATABASE_URL=postgresql+psycopg://canvasgram:password@localhost/canvasgram"
        ) from None
