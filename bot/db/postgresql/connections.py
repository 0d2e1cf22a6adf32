"""Opens connections to a PostgreSQL server: one that writes, and a pool of those that only read."""

from dataclasses import dataclass
from typing import Any

from psycopg.adapt import Loader
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.errors import SettingsRefused

_CONNECT_SECONDS = 5
_MAX_IDLE_READERS = 2
_MAX_READERS = 10
_READER_TIMEOUT_SECONDS = 10.0  # that a read waits until another one has ended
# A peer that is gone without a word is noticed after eleven seconds, here and at the server, which then frees
# the locks of that session.
_KEEPALIVE_SECONDS = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
_SESSION_OPTIONS = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c timezone=UTC"
)
_READER_OPTIONS = f"{_SESSION_OPTIONS} -c default_transaction_read_only=on"
_ENGINE_OPTIONS: dict[str, Any] = {"hide_parameters": True, "pool_reset_on_return": None}


@dataclass(frozen=True, slots=True)
class ServerEngines:
    """What opens connections: `writer` a new one each time; those of `readers` are kept for the next read."""

    writer: AsyncEngine
    readers: AsyncEngine


def create_engines(url: str) -> ServerEngines:
    """ServerEngines for the server that `url` names; none connects yet."""
    address = _parse_url(url)
    engines = ServerEngines(
        create_async_engine(
            address, poolclass=NullPool, connect_args=_build_arguments(_SESSION_OPTIONS), **_ENGINE_OPTIONS
        ),
        create_async_engine(
            address,
            isolation_level="REPEATABLE READ",
            pool_size=_MAX_IDLE_READERS,
            max_overflow=_MAX_READERS - _MAX_IDLE_READERS,
            pool_timeout=_READER_TIMEOUT_SECONDS,
            connect_args=_build_arguments(_READER_OPTIONS),
            **_ENGINE_OPTIONS,
        ),
    )
    for engine in (engines.writer, engines.readers):
        event.listen(engine.sync_engine, "connect", _set_up)
    return engines


def _set_up(connection: Any, _record: object) -> None:
    connection.adapters.register_loader("numeric", _SumLoader)


class _SumLoader(Loader):
    """Reads what PostgreSQL calls numeric: here that is always a sum of integers."""

    def load(self, data: bytes | bytearray | memoryview) -> int:
        return int(bytes(data))


def create_blocking_engine(url: str) -> Engine:
    """An engine whose connections block the thread that uses them."""
    return create_engine(
        _parse_url(url),
        poolclass=NullPool,
        connect_args=_build_arguments(_SESSION_OPTIONS),
        **_ENGINE_OPTIONS,
    )


def _parse_url(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:  # its text would quote the password
        raise SettingsRefused(
            "DATABASE_URL is no address of a server. Write % for odd characters of the password (@ is %40). "
            "Example: DATABASE_URL=postgresql+psycopg://canvasgram:password@localhost/canvasgram"
        ) from None


def _build_arguments(options: str) -> dict[str, Any]:
    return {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "canvasgram",
        "client_encoding": "utf8",
        "options": options,
        **_KEEPALIVE_SECONDS,
    }
