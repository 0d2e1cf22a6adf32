"""The advisory locks of a database: PostgreSQL frees one when its session ends, however its process died."""

import asyncio
import time

from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import GatewayRunning, SettingsRefused, StoreBusy

_CLASS = 1_667_329_646  # "canv": other programs may use advisory locks in the same database
MIGRATION = f"{_CLASS}, 1"
"""Held by the process that migrates."""
_GATEWAY = f"{_CLASS}, 2"
# The server notices at once that a process died, and after eleven seconds that a machine or a network did.
_START_SECONDS = 1.0
_LOST_SECONDS = 15.0
_RETRY_SECONDS = 0.1


class GatewayLock:
    """Held by the session that writes for the running gateway: a session without it commits nothing."""

    def __init__(self) -> None:
        self._was_held = False
        self._lost_at: float | None = (
            None  # monotonic; when a session was refused first, after one that held it
        )

    async def take(self, connection: AsyncConnection) -> None:
        """Let the session of this connection hold it.

        Raises GatewayRunning if another gateway does, and StoreBusy as long as that may be one's own lost
        session.
        """
        began_at = time.monotonic()
        while not await _try_lock(connection):
            if time.monotonic() > began_at + _START_SECONDS:
                self._refuse(began_at)
            await asyncio.sleep(_RETRY_SECONDS)
        self._was_held = True
        self._lost_at = None

    def _refuse(self, began_at: float) -> None:
        if self._was_held:
            self._lost_at = self._lost_at or began_at
            if began_at < self._lost_at + _LOST_SECONDS:
                raise StoreBusy("the database cannot be used now: a lost session still holds its lock")
        raise GatewayRunning(
            "Another gateway already works on this database. "
            "Stop it first, or set DATABASE_URL to another database."
        )


async def refuse_pooler(other: AsyncConnection) -> None:
    """Raise SettingsRefused if this connection, of two, holds the gateway's lock that the first one took."""
    if await _try_lock(other):
        raise SettingsRefused(
            "DATABASE_URL leads to a pooler that shares sessions, as PgBouncer does in transaction mode: no "
            "lock holds there. Connect to the server itself, or set pool_mode=session for this database."
        )


async def _try_lock(connection: AsyncConnection) -> bool:
    rows = await connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({_GATEWAY})")
    is_held = bool(rows.scalar_one())
    await connection.commit()  # the lock is the session's
    return is_held
