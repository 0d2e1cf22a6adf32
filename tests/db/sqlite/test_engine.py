"""Transactions are stored completely or not at all, and what is deleted leaves no trace in the files."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, text
from sqlalchemy.exc import OperationalError

from bot.db.database_url import parse_database_path
from bot.db.engine import Database, open_database
from bot.db.retry import OutageLog
from bot.db.sqlite import connections
from bot.db.sqlite.connections import LoopConnection, _PrefetchingConnection
from bot.db.tables import notices
from bot.errors import StoreUnavailable
from tests.support.empty_database import place_empty_database
from tests.support.sql_trace import trace_sql

pytestmark = pytest.mark.sqlite

ROW = {"subject": "a", "text": "b", "told_at": 0.0}


async def insert_notice(database: Database, subject: str = "a") -> None:
    async with database.transaction() as tx:
        await tx.execute(insert(notices).values(ROW | {"subject": subject}))


async def count_notices(database: Database) -> int:
    async with database.read_transaction() as tx:
        return int((await tx.execute(select(func.count()).select_from(notices))).scalar_one())


async def test_a_transaction_that_raises_leaves_nothing(database: Database):
    async def fail() -> None:
        async with database.transaction() as tx:
            await tx.execute(insert(notices).values(ROW))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await count_notices(database) == 0


async def test_a_cancelled_transaction_leaves_nothing_and_the_database_usable(database: Database):
    for steps in range(1, 40):

        async def write(number: int = steps) -> None:
            async with database.transaction() as tx:
                for part in range(3):
                    await tx.execute(insert(notices).values({**ROW, "subject": f"{number}-{part}"}))

        task = asyncio.get_running_loop().create_task(write())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert await count_notices(database) % 3 == 0
    async with database.transaction() as tx:
        await tx.execute(insert(notices).values(ROW))


async def test_read_then_write_from_many_tasks_never_collides(database: Database):
    async def add_one(number: int) -> None:
        async with database.transaction() as tx:
            count = (await tx.execute(select(func.count()).select_from(notices))).scalar_one()
            await tx.execute(insert(notices).values({**ROW, "subject": f"{count}"}))

    async with asyncio.TaskGroup() as tasks:
        for number in range(50):
            tasks.create_task(add_one(number))
    assert await count_notices(database) == 50


async def test_commits_are_synced_to_the_disk_and_the_file_is_private(database: Database, database_url: str):
    async with database.read_transaction() as tx:
        assert (await tx.execute(text("PRAGMA journal_mode"))).scalar_one() == "wal"
    for durable in (True, False, True):
        async with database.transaction(durable=durable) as tx:
            mode = (await tx.execute(text("PRAGMA synchronous"))).scalar_one()
            assert mode == {True: 2, False: 1}[durable]  # FULL, NORMAL
            await tx.execute(insert(notices).values(ROW | {"subject": "a"}).prefix_with("OR REPLACE"))
    file = parse_database_path(database_url)
    for path in (file, Path(f"{file}-wal")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_full_database_is_reported_and_can_be_used_again(database: Database):
    async with database.read_transaction() as tx:
        size = (await tx.execute(text("PRAGMA page_count"))).scalar_one()

    async def fill() -> None:
        async with database.transaction() as tx:
            await tx.execute(text(f"PRAGMA max_page_count = {size}"))
            await tx.execute(insert(notices).values({**ROW, "text": "x" * 1_000_000}))

    with pytest.raises(StoreUnavailable, match="full"):
        await fill()
    async with database.transaction() as tx:
        await tx.execute(text("PRAGMA max_page_count = 1000000"))
        await tx.execute(insert(notices).values(ROW))
    assert await count_notices(database) == 1


async def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    database_url: str, caplog: pytest.LogCaptureFixture
):
    blocker = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
    stop = asyncio.Event()
    stop.set()  # it waits only briefly for the lock
    async with open_database(database_url, OutageLog(), stop) as database:

        async def write() -> None:
            async with database.transaction() as tx:
                await tx.execute(insert(notices).values(ROW))

        async with database.read_transaction() as tx:  # sets the write-ahead log up
            await tx.execute(select(notices))
        blocker.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="locked"):
                await write()
        blocker.execute("ROLLBACK")
        blocker.close()
        await write()
        async with database.transaction() as tx:
            await tx.execute(delete(notices))
    actions = [record.action for record in caplog.records]  # type: ignore[attr-defined]
    assert actions == ["store.away", "store.back"]


async def test_a_connection_that_is_read_only_is_reported_and_replaced(database: Database):
    async def write() -> None:
        async with database.transaction() as tx:
            await tx.execute(text("PRAGMA query_only=ON"))
            await tx.execute(insert(notices).values(ROW))

    with pytest.raises(StoreUnavailable, match="readonly"):
        await write()
    async with database.transaction() as tx:  # on another connection
        await tx.execute(insert(notices).values(ROW))
    assert await count_notices(database) == 1


@pytest.mark.parametrize("error", [RuntimeError, None])
async def test_after_a_rollback_that_fails_the_next_transaction_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None
):
    def fail(connection: sqlite3.Connection) -> None:
        failure = sqlite3.OperationalError("disk I/O error")
        failure.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise failure

    async def write() -> None:
        async with database.transaction() as tx:
            await tx.execute(insert(notices).values(ROW))
            if error is not None:
                raise error

    await count_notices(database)
    with monkeypatch.context() as broken:
        for name in ("commit", "rollback"):
            broken.setattr(_PrefetchingConnection, name, fail)
        with pytest.raises(error or StoreUnavailable):
            await write()
        with pytest.raises(StoreUnavailable):
            await count_notices(database)
    await insert_notice(database)
    assert await count_notices(database) == 1


async def test_deleted_text_is_in_no_file_once_nobody_reads_it_any_more(
    database: Database, database_url: str
):
    file = parse_database_path(database_url)
    async with database.transaction() as tx:
        await tx.execute(insert(notices).values({**ROW, "text": "a secret " * 1000}))
    async with database.read_transaction() as reader:
        assert (await reader.execute(select(func.count()).select_from(notices))).scalar_one() == 1
        async with database.transaction() as tx:
            await tx.execute(delete(notices))
        with pytest.raises(StoreUnavailable, match="which somebody reads"):
            await database.erase_deleted()
    await database.erase_deleted()
    for path in (file, Path(f"{file}-wal")):
        assert b"a secret" not in path.read_bytes()


async def test_while_another_process_holds_the_lock_the_event_loop_goes_on(
    database: Database, database_url: str
):
    async with database.transaction() as tx:
        assert (await tx.execute(text("PRAGMA busy_timeout"))).scalar_one() == 0  # SQLite never waits
    blocker = sqlite3.connect(parse_database_path(database_url), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    first = asyncio.get_running_loop().create_task(insert_notice(database))
    for _ in range(5):
        await asyncio.sleep(0.01)
        assert await count_notices(database) == 0
    assert not first.done()
    blocker.execute("ROLLBACK")
    blocker.close()
    await first
    assert await count_notices(database) == 1


async def test_a_commit_that_a_thread_has_begun_ends_before_anything_else_is_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    begun, may_end = threading.Event(), threading.Event()
    original_commit = LoopConnection.commit

    def commit_slowly(connection: LoopConnection) -> None:
        begun.set()
        assert may_end.wait(60)
        original_commit(connection)

    monkeypatch.setattr(LoopConnection, "commit", commit_slowly)
    first = asyncio.get_running_loop().create_task(insert_notice(database, subject="first"))
    assert await asyncio.to_thread(begun.wait, 60)
    second = asyncio.get_running_loop().create_task(insert_notice(database, subject="second"))
    for _ in range(2):  # being told twice must not end the wait either
        first.cancel()
        await asyncio.sleep(0.01)
    assert not first.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert await count_notices(database) == 2


async def test_rows_are_there_after_their_transaction(database: Database):
    async with database.transaction() as tx:
        stored = await tx.execute(insert(notices).values(ROW).returning(notices.c.subject))
        everything = await tx.execute(select(notices.c.text))
    assert stored.scalar_one() == "a"
    assert everything.scalars().all() == ["b"]


async def test_long_transactions_have_a_thread_and_are_stored_or_undone_alike(database: Database):
    async def fail() -> None:
        async with database.long_transaction() as tx:
            await tx.execute(insert(notices).values(ROW | {"subject": "undone"}))
            raise RuntimeError

    with trace_sql() as trace:
        async with database.long_transaction() as tx:
            await tx.execute(insert(notices).values(ROW))
        with pytest.raises(RuntimeError):
            await fail()
        async with database.long_read_transaction() as tx:
            assert (await tx.execute(select(notices.c.subject))).scalars().all() == ["a"]
        assert (trace.thread_count, trace.statements) == (3, [])


async def test_a_url_that_names_no_file_is_refused():
    with pytest.raises(ValueError, match="no file"):
        async with open_database("sqlite+aiosqlite:///:memory:"):
            pass


async def test_a_wrong_statement_is_not_reported_as_an_unavailable_database(database: Database):
    async def run_wrong_statement() -> None:
        async with database.transaction() as tx:
            await tx.execute(text("SELECT nothing FROM nowhere"))

    with pytest.raises(OperationalError):
        await run_wrong_statement()
    assert await count_notices(database) == 0


async def test_reads_that_begin_at_once_open_a_new_file_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """SQLite refuses one of two that turn it to a write-ahead log, and waits for nothing."""
    steps: list[str] = []
    run_pragmas = connections._run_pragmas

    def note(connection: Any, pragmas: Sequence[str]) -> None:
        steps.append("begun")
        run_pragmas(connection, pragmas)
        steps.append("ended")

    async def read(database: Database) -> None:
        async with database.long_read_transaction() as tx:
            await tx.execute(select(func.count()).select_from(notices))

    async with open_database(place_empty_database(tmp_path / "new.db")) as database:
        monkeypatch.setattr(connections, "_run_pragmas", note)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(read(database))
    assert steps == ["begun", "ended"] * 4
