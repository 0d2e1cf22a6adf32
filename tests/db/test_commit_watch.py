"""What other commands write is noticed; while nothing is written, nothing is read."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from bot.db import commit_watch as commit_watch_module
from bot.db import revisions
from bot.db.commit_watch import SETTLE_SECONDS, CommitWatch, compute_seconds_to_look
from bot.db.database_url import parse_database_path
from bot.db.engine import Database
from bot.jobs import scheduler as scheduler_module
from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_job_runner import SystemJobSettings, SystemJobSync
from bot.tool_registry import registry as registry_module
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.registry import ToolRegistry

pytestmark = pytest.mark.sqlite

LOOKS = 5


@pytest.fixture
def file(database_url: str) -> Path:
    return parse_database_path(database_url)


def look(watch: CommitWatch) -> bool:
    with watch.look() as is_written:
        return is_written


async def commit(database: Database) -> None:
    async with database.transaction() as tx:
        await revisions.bump(tx, revisions.FILES)


class FakeClock:
    """A clock that goes on by as many seconds at each reading."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 1000.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


async def test_commits_of_this_and_of_another_process_are_seen(database: Database, file: Path):
    watch = CommitWatch(file, FakeClock(SETTLE_SECONDS))
    for _ in range(2):
        await commit(database)
        assert [look(watch) for _ in range(4)] == [True, True, False, False]
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE revisions SET number = number + 1")
    assert [look(watch) for _ in range(4)] == [True, True, False, False]


async def test_a_commit_that_is_synced_after_the_log_shows_it_is_not_missed(database: Database, file: Path):
    """A look between the two reads the old rows: it is not the last one at this state of the log."""
    await commit(database)
    watch = CommitWatch(file, FakeClock(1.0))
    looks = [look(watch) for _ in range(6)]
    assert looks == [True, True, True, True, False, False]


async def test_a_look_that_fails_does_not_count(database: Database, file: Path):
    await commit(database)
    watch = CommitWatch(file, FakeClock(SETTLE_SECONDS))
    for _ in range(3):
        with suppress(OSError), watch.look():
            raise OSError
    assert [look(watch), look(watch)] == [True, False]


def test_without_a_log_or_a_file_something_may_always_have_been_written(tmp_path: Path):
    for watch in (CommitWatch(tmp_path / "nowhere.db"), CommitWatch(None)):
        assert [look(watch), look(watch)] == [True, True]


async def test_all_parts_look_at_the_same_moment():
    loop = asyncio.get_running_loop()
    for _ in range(3):
        earliest = loop.time()
        seconds = compute_seconds_to_look(1000.0)
        latest = loop.time()
        assert 0 < seconds <= 1000
        moment = 1000 * round((latest + seconds) / 1000)
        assert earliest + seconds - 0.001 <= moment <= latest + seconds + 0.001
        await asyncio.sleep(0)


class ReadCount:
    """Counts the transactions of a database, and the looks of the parts that watch it."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.looks = 0
        self.enough = asyncio.Event()
        read, see = database.read_transaction, CommitWatch.look

        @asynccontextmanager
        async def count_read():
            self.reads += 1
            async with read() as tx:
                yield tx

        def count_look(watch: CommitWatch):
            self.looks += 1
            if self.looks >= LOOKS:
                self.enough.set()
            return see(watch)

        monkeypatch.setattr(database, "read_transaction", count_read)
        monkeypatch.setattr(CommitWatch, "look", count_look)


@pytest.mark.parametrize("part", ["scheduler", "registry", "system jobs"])
async def test_while_nothing_is_written_parts_that_watch_read_once(
    database: Database, file: Path, monkeypatch: pytest.MonkeyPatch, part: str
):
    await commit(database)
    for module in (scheduler_module, registry_module):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(commit_watch_module, "SETTLE_SECONDS", 0.0)
    count = ReadCount(database, monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        if part == "scheduler":
            running = JobScheduler(database, database_file=file).run()
        elif part == "registry":
            tools = ToolRegistry(database, (), lambda person: True, ToolSettings(database_file=file))
            await tools.load()
            count.reads = 0
            running = tools.run()
        else:
            running = watch_system_jobs(database, file)
        task = tasks.create_task(running)
        await count.enough.wait()
        before = count.reads
        count.enough.clear()
        count.looks = 0
        await count.enough.wait()
        assert count.reads == before
        await commit(database)
        while count.reads == before:  # noqa: ASYNC110  # the part is not told of a commit
            await asyncio.sleep(0)
        task.cancel()


async def watch_system_jobs(database: Database, file: Path) -> None:
    settings = SystemJobSettings(file)
    system_jobs = SystemJobSync(database, (), settings, on_ordered=lambda: None)
    while True:
        await system_jobs.poll_ordered_jobs()
        await asyncio.sleep(0)
