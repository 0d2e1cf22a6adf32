"""The database of a chaos run, a file or a database on a server: what is read there, and how it fails."""

import asyncio
import contextlib
import random
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import psycopg
from sqlalchemy.engine import make_url

from bot.db.tables import metadata
from tests.chaos.state import ChaosRun
from tests.kill.gateway import GatewayProcess
from tests.support.held_database import FULL_DISK_BYTES, hold_database
from tests.support.postgresql import PostgresServer

MAX_LOCK_SECONDS = 12.0
MAX_SHORT_LOCK_SECONDS = 2.0
MAX_LOCK_WAIT_MS = 200
MAX_SERVER_DOWN_SECONDS = 3.0
MAX_PAUSE_SECONDS = 24.0  # others take over what stands still for longer than twelve
MAX_SHORT_PAUSE_SECONDS = 1.0
_SHARE_LOCKS = 1667329647  # the first numbers of advisory locks, as in session_locks
_REPLICA_LOCKS = 1667329649
_SUM_OF_PARTS = (
    "intake + lane_wait + starting + preflight + seat_wait + server_queue + first_canvas + further_canvases"
    " + failed_calls + tools + approval_wait + telegram + back_off + down + own"
)
_LEFTOVERS = (
    f"select 'the account of turn ' || turn || ' lacks ' || (whole - ({_SUM_OF_PARTS})) || ' s of ' || whole"
    f" from accounts where abs(whole - ({_SUM_OF_PARTS})) > 0.001",
    "select 'turn ' || id || ' has no account' from turns"
    " where ended_at is not null and id not in (select turn from accounts)",
    "select 'model call ' || id || ' is still open' from model_calls where outcome is null",
)
_LOCKS = (
    "select objid::int from pg_locks where locktype = 'advisory' and granted and classid = {locks}"
    " and database = (select oid from pg_database where datname = current_database())"
)
_REPLICA_LEFTOVERS = (
    "select 'share ' || number || ' is held by nobody' from generate_series(0, 31) as number"
    f" where number not in ({_LOCKS.format(locks=_SHARE_LOCKS)})",
    "select 'share ' || share || ' has ' || count(*) || ' holds' from share_holds where ended_at is null"
    " group by share having count(*) > 1",
    "select 'share ' || share || ' is stored as held by replica ' || life || ', which is gone'"
    f" from share_holds where ended_at is null and life not in ({_LOCKS.format(locks=_REPLICA_LOCKS)})",
    "select 'a seat of ' || endpoint || ' belongs to a call for ' || lane || ' by replica ' || life"
    " from seat_requests",
)


class ChaosStore(Protocol):
    """What a run needs of its database."""

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that the database has for this query."""
        ...

    def change_rows(self, statement: str) -> None:
        """Run a statement unless the database is held or away."""
        ...

    async def disturb(self, run: ChaosRun, rng: random.Random) -> None:
        """Make the database fail in every way that it can, one after the other."""
        ...

    def list_leftovers(self) -> Sequence[str]:
        """What should not be left behind once all is done."""
        ...

    def save_tables(self, folder: Path) -> None:
        """Keep in this folder what the database holds, which explains a breach."""
        ...


class FileStore:
    """A file of SQLite; one gateway uses it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that the database has for this query."""
        with contextlib.closing(sqlite3.connect(self._file)) as connection:
            return connection.execute(query).fetchall()

    def change_rows(self, statement: str) -> None:
        """Run a statement unless the database is held."""
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(self._file, timeout=0)) as connection,
            connection,
        ):
            connection.execute(statement)

    async def disturb(self, run: ChaosRun, rng: random.Random) -> None:
        """Have another process hold the database, then let the gateway write nothing."""
        longest = MAX_LOCK_SECONDS if run.options.is_long else MAX_SHORT_LOCK_SECONDS
        statement = rng.choice(("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"))
        seconds = rng.uniform(longest / 2, longest)
        async with hold_database(self._file, statement):
            with run.noting(f"database held for {seconds:.1f} s"):
                await asyncio.sleep(seconds)
        with run.noting("disk full"):
            _limit_file_size(run.gateways[0], FULL_DISK_BYTES)
            await asyncio.sleep(rng.uniform(0.5, 3.0))
            _limit_file_size(run.gateways[0], resource.RLIM_INFINITY)

    def list_leftovers(self) -> Sequence[str]:
        """What should not be left behind once all is done."""
        return [text for query in _LEFTOVERS for (text,) in self.load_rows(query)]

    def save_tables(self, folder: Path) -> None:
        """Keep nothing more: the file stays."""


def _limit_file_size(gateway: GatewayProcess, byte_count: int) -> None:
    """Let this process write nothing for a while; the next one may."""
    if gateway.is_running:
        with contextlib.suppress(ProcessLookupError):
            gateway.limit_file_size(byte_count)


class ServerStore:
    """A database on a PostgreSQL server; several gateways use it."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self._server = server
        self._database = make_url(url).database or ""

    def load_rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that the database has for this query."""
        return self._server.execute(query, self._database)

    def change_rows(self, statement: str) -> None:
        """Run a statement unless the server is away, or a replica that is paused has locked the rows."""
        with contextlib.suppress(psycopg.OperationalError):
            self._server.execute(f"set lock_timeout = {MAX_LOCK_WAIT_MS}; {statement}", self._database)

    async def disturb(self, run: ChaosRun, rng: random.Random) -> None:
        """Restart the server, and pause a replica until others have its chats."""
        with run.noting("server restarted"):
            await asyncio.to_thread(self._server.stop, abruptly=rng.random() < 0.5)
            await asyncio.sleep(rng.uniform(0.0, MAX_SERVER_DOWN_SECONDS))
            await asyncio.to_thread(self._server.start)
        longest = MAX_PAUSE_SECONDS if run.options.is_long else MAX_SHORT_PAUSE_SECONDS
        replicas = [
            gateway
            for gateway in run.gateways
            if gateway is not run.terminated  # its time to end would pass
            and gateway.is_running
            and "takes part" in gateway.output
        ]
        if not replicas:
            return
        gateway = rng.choice(replicas)
        with run.noting("replica paused"):
            _signal(gateway, signal.SIGSTOP)
            await asyncio.sleep(rng.uniform(longest / 2, longest))
            _signal(gateway, signal.SIGCONT)

    def list_leftovers(self) -> Sequence[str]:
        """What should not be left behind once all is done."""
        return [text for query in (*_LEFTOVERS, *_REPLICA_LEFTOVERS) for (text,) in self.load_rows(query)]

    def save_tables(self, folder: Path) -> None:
        """Write each table as a file of comma-separated values; the server's files go with the server."""
        folder.mkdir()
        for table in metadata.tables:
            copied = self._server.copy(table, self._database)
            (folder / f"{table}.csv").write_bytes(copied)
        shutil.copy(self._server.folder / "log", folder / "server.log")


def _signal(gateway: GatewayProcess, number: int) -> None:
    if gateway.is_running:
        with contextlib.suppress(ProcessLookupError):
            gateway.signal(number)


async def bring_jobs_forward(run: ChaosRun, store: ChaosStore) -> None:
    """Let every second job that is far off be due within seconds, and in a short run each: a minute is long.

    Also while no gateway runs.
    """
    now = time.time()
    part = 2 if run.options.is_long else 1
    statement = (
        f"update jobs set next_due = {now} + id % 10"
        f" where kind != 'system' and next_due > {now + 10} and id % {part} = 0"
    )
    await asyncio.to_thread(store.change_rows, statement)  # nothing simulated stands still meanwhile
