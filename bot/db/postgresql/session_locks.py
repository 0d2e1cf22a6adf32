"""The locks of one replica, which PostgreSQL frees at the moment its process dies, and its notifications.

Advisory locks belong to a session, so one connection holds them all: with it all are lost. They
count for one database of the server.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from sqlalchemy import text

from bot.db.postgresql.connections import connect_in_loop, is_lost
from bot.db.postgresql.errors import translate_errors
from bot.db.postgresql.notifications import CHANNEL
from bot.db.shares import LockHolders, SettingDigest
from bot.db.transaction import Transaction

# The first of a lock's two numbers says what the second one counts.
_SHARES = 1_667_329_647
_LEADER = 1_667_329_648
REPLICAS = 1_667_329_649
_LEAVING = 1_667_329_651
_SETTINGS = 1_667_329_700  # and the number of the setting
_MAX_SETTINGS = 100

_LIST_LOCKS = """
    SELECT classid, objid, pid, (SELECT version_num FROM alembic_version) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid BETWEEN %(first)s AND %(last)s
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
LIST_REPLICAS = text("""
    SELECT objid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = :of
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")
_TRY_LOCKS = (
    "SELECT number FROM unnest(%(numbers)s::int[]) AS number WHERE pg_try_advisory_lock(%(of)s, number)"
)
_END_EARLIER = """
    SELECT pg_terminate_backend(pid, 1000) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = %(of)s AND objid = %(life)s
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
# A statement that is under way, as one that waits for another, is no standstill of the client.
_LIST_PULSES = """
    SELECT pid, CASE WHEN state = 'idle' THEN state_change END FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = %(of)s
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_END_SESSION = "SELECT pg_terminate_backend(%s)"
_LOCK_SETTING = "SELECT pg_advisory_lock_shared(%s::int, %s::int)"
_UNLOCK = "SELECT pg_advisory_unlock(%(of)s, number) FROM unnest(%(numbers)s::int[]) AS number"


class SessionLocks:
    """The session of one replica; `open_session_locks` builds it.

    Every method raises an error of the driver once the connection is lost: then all its locks are.
    """

    def __init__(self, connection: AsyncConnection[Any], session: int) -> None:
        self._connection = connection
        self._session = session

    async def wait_for_notifications(self, seconds: float) -> AsyncIterator[str]:
        """Yield what others notify, for so long."""
        async for notification in self._connection.notifies(timeout=seconds):
            yield notification.payload

    def has_unread(self) -> bool:
        """Whether the server has said something that was not read yet, or has ended the session."""
        return is_lost(self._connection)

    async def list_holders(self) -> LockHolders:
        """Read who holds what, and the schema, in one trip: it is read four times a second."""
        cursor = await self._connection.execute(_LIST_LOCKS, {"first": _SHARES, "last": _LEAVING})
        rows = await cursor.fetchall()
        locks = [row[:3] for row in rows]
        leaders = [session for kind, _, session in locks if kind == _LEADER]
        return LockHolders(
            session=self._session,
            replicas={number: session for kind, number, session in locks if kind == REPLICAS},
            shares={number: session for kind, number, session in locks if kind == _SHARES},
            leader=leaders[0] if leaders else None,
            leaving=frozenset(session for kind, _, session in locks if kind == _LEAVING),
            schema=rows[0][3] if rows else None,
        )

    async def end_earlier_session(self, life: int) -> None:
        """End the session that this process had before, if the server does not know yet that it is lost."""
        await self._connection.execute(_END_EARLIER, {"of": REPLICAS, "life": life})

    async def list_pulses(self) -> Mapping[int, datetime | None]:
        """Read when each other replica's session last ended a statement; None: one is under way."""
        cursor = await self._connection.execute(_LIST_PULSES, {"of": REPLICAS})
        return {session: moment for session, moment in await cursor.fetchall() if session != self._session}

    async def end_session(self, session: int) -> None:
        """End the session of another replica, and free its locks."""
        await self._connection.execute(_END_SESSION, (session,))

    async def join(self, life: int) -> None:
        """Count as a replica that takes shares; `life` is the id of this process's life."""
        await self._try_locks(REPLICAS, [life])

    async def hold_settings(self, digests: Collection[SettingDigest]) -> frozenset[SettingDigest]:
        """Show the others the digests of one's own settings; returns theirs."""
        for own in digests:
            await self._connection.execute(_LOCK_SETTING, (_SETTINGS + own.setting, own.digest))
        bounds = {"first": _SETTINGS, "last": _SETTINGS + _MAX_SETTINGS}
        cursor = await self._connection.execute(_LIST_LOCKS, bounds)
        return frozenset(
            SettingDigest(kind - _SETTINGS, digest)
            for kind, digest, session, _ in await cursor.fetchall()
            if session != self._session
        )

    async def leave(self, life: int) -> None:
        """Tell the others to take this replica's part as well."""
        await self._try_locks(_LEAVING, [life])

    async def try_take(self, shares: Collection[int]) -> frozenset[int]:
        """Take those of these shares that are free; returns which."""
        return await self._try_locks(_SHARES, shares)

    async def give(self, shares: Collection[int]) -> None:
        """Free these shares."""
        await self._unlock(_SHARES, shares)

    async def try_lead(self) -> bool:
        """Become the leader unless there is one."""
        return bool(await self._try_locks(_LEADER, [1]))

    async def stop_leading(self) -> None:
        """Let another replica lead."""
        await self._unlock(_LEADER, [1])

    async def _try_locks(self, kind: int, numbers: Collection[int]) -> frozenset[int]:
        if not numbers:
            return frozenset()
        cursor = await self._connection.execute(_TRY_LOCKS, {"of": kind, "numbers": list(numbers)})
        return frozenset(number for (number,) in await cursor.fetchall())

    async def _unlock(self, kind: int, numbers: Collection[int]) -> None:
        await self._connection.execute(_UNLOCK, {"of": kind, "numbers": list(numbers)})


async def list_replicas(tx: Transaction) -> frozenset[int]:
    """Read which replicas' sessions live at this moment, by the ids of their lives."""
    return frozenset(row.objid for row in await tx.execute(LIST_REPLICAS, {"of": REPLICAS}))


@contextlib.asynccontextmanager
async def open_session_locks(url: str) -> AsyncIterator[SessionLocks]:
    """Open a session at the server that `url` names, which holds no lock yet and hears notifications.

    Raises StoreUnavailable, also in the block once the session is lost, and SettingsRefused.
    """
    with translate_errors(was_open=True):
        connection = await connect_in_loop(url)
        try:
            await connection.execute(f"LISTEN {CHANNEL}")
            # The driver's own number is the pooler's where one stands between.
            cursor = await connection.execute("SELECT pg_backend_pid()")
            [[session]] = await cursor.fetchall()
            yield SessionLocks(connection, session)
        finally:
            await connection.close()
