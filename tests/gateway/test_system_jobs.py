"""System jobs: rows as the settings want them, each run once when it is due or ordered, failures reported."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.cli import system_jobs as job_commands
from bot.db.database_url import find_database_file, parse_database_path
from bot.db.engine import Database
from bot.db.maintenance.backup import find_integrity_errors
from bot.db.people import people
from bot.db.queues import inbox, jobs
from bot.db.queues.admin_notices import AdminNotices
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox
from bot.domain import DAY_SECONDS, InboxItem, Lane, Part
from bot.errors import JobFailed, NothingFound, QuestionRefused, StoreUnavailable
from bot.jobs.scheduler import JobScheduler
from bot.jobs.system_job_runner import (
    AdminMessage,
    SystemJob,
    SystemJobRunner,
    SystemJobSettings,
    SystemJobSync,
    build_daily_rule,
    build_weekly_rule,
)
from tests.support.cache_warmup import wait_until
from tests.support.gateway import GatewayHarness, name_noon_zone, open_harness, running_gateway
from tests.support.terminal_text import lay_out

NIGHT = 1_795_060_800.0  # 19 November 2026, 04:00 UTC: a Thursday, 05:00 in Berlin
HOUR = 3600.0
FAR_RULE = "DTSTART:20260105T033000\nRRULE:FREQ=DAILY"


@dataclass
class SystemJobHarness:
    """System jobs over a real database, with a clock of their own; `notices` are what admins read."""

    database: Database
    file: Path | None
    now: float = NIGHT
    ran_names: list[str] = field(default_factory=list)
    error: Exception | None = None
    result: AdminMessage | None = None
    zone: str = "UTC"

    def system_jobs(self) -> tuple[SystemJob, ...]:
        return (
            SystemJob("care", "looks", build_daily_rule("03:30"), self.job_function("care")),
            SystemJob("report", "tells", build_weekly_rule("08:00"), self.job_function("report")),
            SystemJob("read", "reads", None, self.job_function("read")),
        )

    def job_function(self, name: str) -> Callable[[], Any]:
        async def working() -> AdminMessage | None:
            self.ran_names.append(name)
            if self.error is not None:
                raise self.error
            return self.result

        return working

    def make_sync(
        self, system_jobs: tuple[SystemJob, ...] | None = None, wake: Callable[[], None] = lambda: None
    ) -> SystemJobSync:
        job_settings = SystemJobSettings(self.file, self.zone, lambda: self.now)
        jobs_to_sync = self.system_jobs() if system_jobs is None else system_jobs
        return SystemJobSync(self.database, jobs_to_sync, job_settings, on_ordered=wake)

    def make_runner(self) -> SystemJobRunner:
        return SystemJobRunner(
            self.database,
            self.system_jobs(),
            {"other": self.run_other},
            AdminNotices([7]),
        )

    async def run_other(self, items: tuple[InboxItem, ...]) -> None:
        self.ran_names.append(f"other {items[0].id}")

    async def run_scheduler(self) -> None:
        """What the schedule does now."""
        await JobScheduler(self.database, lambda: self.now).enqueue_due()

    async def run_inbox(self) -> None:
        """Run what waits in the inbox."""
        async with self.database.transaction() as tx:
            groups = (await inbox.claim(tx, now=self.now)).groups
        for group in groups:
            await self.make_runner()(group)

    async def sent_texts(self) -> list[str]:
        async with self.database.read_transaction() as tx:
            return [body.split('"')[3] for body in (await tx.execute(select(outbox.c.body))).scalars()]

    async def load_rows(self) -> dict[str | None, jobs.Job]:
        async with self.database.read_transaction() as tx:
            return {job.name: job for job in await jobs.list_system_jobs(tx)}


@pytest.fixture
async def harness(database: Database, database_url: str) -> SystemJobHarness:
    return SystemJobHarness(database, find_database_file(database_url))


async def test_rows_are_made_once_follow_the_settings_and_go_with_them(harness: SystemJobHarness):
    await harness.make_sync().sync_rows()
    rows = await harness.load_rows()
    assert (rows["care"].next_due, rows["report"].next_due) == (NIGHT + 23.5 * HOUR, NIGHT + 100 * HOUR)
    assert rows["read"].next_due is None
    harness.now += 24 * HOUR
    await harness.make_sync().sync_rows()
    assert await harness.load_rows() == rows  # what was missed meanwhile is still due
    harness.zone = "Europe/Berlin"
    await harness.make_sync(harness.system_jobs()[:2]).sync_rows()
    rows = await harness.load_rows()
    assert set(rows) == {"care", "report"}
    assert rows["care"].next_due == NIGHT + 46.5 * HOUR
    await harness.make_sync(()).sync_rows()
    assert await harness.load_rows() == {}


@pytest.mark.sqlite
async def test_a_job_is_done_when_it_is_due_and_a_backlog_once(harness: SystemJobHarness):
    await harness.make_sync().sync_rows()
    await harness.run_scheduler()
    await harness.run_inbox()
    assert harness.ran_names == []
    harness.now += 100 * HOUR + 1  # the gateway was down for four nights
    await harness.run_scheduler()
    await harness.run_scheduler()
    await harness.run_inbox()
    assert sorted(harness.ran_names) == ["care", "report"]
    rows = await harness.load_rows()
    assert rows["care"].next_due == NIGHT + 119.5 * HOUR
    assert rows["care"].failures == 0
    assert rows["care"].last_done is not None


async def test_a_job_that_fails_is_reported_once_and_once_more_when_it_works_again(harness: SystemJobHarness):
    await harness.make_sync().sync_rows()
    harness.error = JobFailed("The disk is full.")
    for night in range(3):
        harness.now = NIGHT + (24 + 24 * night) * HOUR
        await harness.run_scheduler()
        await harness.run_inbox()
        assert (await harness.load_rows())["care"].failures == night + 1
    assert await harness.sent_texts() == ["The system job care failed: The disk is full."]
    harness.error = None
    harness.now += 24 * HOUR
    await harness.run_scheduler()
    await harness.run_inbox()
    assert (await harness.sent_texts())[1:] == ["The system job care works again."]
    harness.error = RuntimeError("a bug")
    harness.now += 24 * HOUR
    await harness.run_scheduler()
    await harness.run_inbox()
    assert sorted((await harness.sent_texts())[2:]) == [
        "The system job care failed: The log says why.",
        "The system job report failed: The log says why.",
    ]


async def test_what_admins_are_to_read_is_written_down_with_the_end_of_the_job(harness: SystemJobHarness):
    await harness.make_sync().sync_rows()
    harness.result = lambda _: Part("42 turns", silent=True)
    async with harness.database.transaction() as tx:
        await people.put(tx, 8, "Bob", "admin", now=1.0)
    harness.now += 24 * HOUR
    await harness.run_scheduler()
    await harness.run_inbox()
    assert await harness.sent_texts() == ["42 turns", "42 turns"]


async def test_a_database_that_is_busy_is_waited_for_and_other_items_have_their_own_runners(
    harness: SystemJobHarness,
):
    await harness.make_sync().sync_rows()
    harness.error = StoreUnavailable("locked")
    harness.now += 24 * HOUR
    await harness.run_scheduler()
    with pytest.raises(StoreUnavailable):
        await harness.run_inbox()
    async with harness.database.transaction() as tx:
        await inbox.recover(tx, now=harness.now)
        await inbox.add(tx, kind="system", lane=None, sender=None, body={"job": "other"}, now=harness.now)
        await inbox.add(tx, kind="system", lane=None, sender=None, body={"job": "gone"}, now=harness.now)
    harness.error = None
    await harness.run_inbox()
    assert harness.ran_names == ["care", "care", "other 2"]  # and what nobody knows any more is done with
    async with harness.database.read_transaction() as tx:
        states = (
            await tx.execute(select(inbox_table.c.id, inbox_table.c.state).order_by(inbox_table.c.id))
        ).all()
    assert [tuple(row) for row in states] == [(1, "done"), (2, "running"), (3, "done")]


async def test_jobs_are_listed_and_one_that_is_ordered_is_heard_of(
    harness: SystemJobHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bot.db.commit_watch.SETTLE_SECONDS", 0.0)  # each commit is looked at once
    woken: list[int] = []
    rota = harness.make_sync(wake=lambda: woken.append(1))
    with pytest.raises(NothingFound, match="no jobs yet"):
        await job_commands.list_system_jobs(database_url)
    with pytest.raises(QuestionRefused, match="none yet"):
        await job_commands.run_system_job(database_url, "care", now=NIGHT)
    await rota.sync_rows()
    await rota.poll_ordered_jobs()
    assert woken == []
    with pytest.raises(QuestionRefused, match=r"no system job 'backup'\. There are: care, read, report\."):
        await job_commands.run_system_job(database_url, "backup", now=NIGHT)
    assert "care is ordered." in await job_commands.run_system_job(database_url, "care", now=NIGHT)
    assert (
        await job_commands.run_system_job(database_url, "care", now=NIGHT + 1)
        == "care is ordered already, or at work."
    )
    await rota.poll_ordered_jobs()
    await rota.poll_ordered_jobs()  # nothing was written to the file since: nothing is asked
    assert woken == ([1] if harness.file else [1, 1])
    assert "waits" in lay_out(await job_commands.list_system_jobs(database_url))


@pytest.mark.sqlite
async def test_the_list_says_when_each_is_due_and_how_it_went(harness: SystemJobHarness, database_url: str):
    await harness.make_sync().sync_rows()
    await job_commands.run_system_job(database_url, "care", now=NIGHT)
    harness.error = JobFailed("No way.")
    await harness.run_inbox()
    async with harness.database.transaction() as tx:
        new = jobs.NewJob("reminder", NIGHT + 9, "UTC", person=7, lane=Lane(7))
        await jobs.add(tx, new, now=NIGHT)
        await tx.execute(update(inbox_table).values(received_at=NIGHT))
    listed = lay_out(await job_commands.list_system_jobs(database_url)).splitlines()
    assert listed[0].split("  ")[0] == "job"
    assert listed[1] == "care    2026-11-20 03:30  2026-11-19 04:00  failed: No way.  looks"
    assert listed[2] == "read    by its own clock  –                 never ran        reads"
    assert listed[-2:] == ["Times are of UTC.", "Jobs of people: 1 active."]
    with closing(sqlite3.connect(parse_database_path(database_url))) as connection, connection:
        connection.execute(
            "INSERT INTO readings (endpoint, read_at, totals, running, why) VALUES ('x', ?, '{}', 0, '')",
            [NIGHT],
        )
    assert "by its own clock  2026-11-19 04:00  ok " in lay_out(
        await job_commands.list_system_jobs(database_url)
    )


@pytest.mark.sqlite
async def test_without_a_log_there_is_nothing_to_hear(harness: SystemJobHarness, tmp_path: Path):
    job_settings = SystemJobSettings(tmp_path / "nowhere.db")
    await SystemJobSync(
        harness.database,
        (),
        job_settings,
        on_ordered=lambda: pytest.fail("woken"),
    ).poll_ordered_jobs()


def make_overdue(gateway: GatewayHarness, name: str) -> None:
    """A job was due long ago."""
    set_job_time(gateway, name, "next_due", time.time() - 9 * HOUR)


def make_older(gateway: GatewayHarness, name: str, *, days: int) -> None:
    """A job is wanted for as many days."""
    set_job_time(gateway, name, "made_at", time.time() - days * DAY_SECONDS)


def set_job_time(gateway: GatewayHarness, name: str, column: str, moment: float) -> None:
    with (
        closing(sqlite3.connect(parse_database_path(gateway.settings.database_url))) as connection,
        connection,
    ):
        changed = connection.execute(f"UPDATE jobs SET {column} = ? WHERE name = ?", [moment, name])
        assert changed.rowcount == 1


async def wait_until_settled(gateway: GatewayHarness, **counts: int) -> list[tuple[Any, ...]]:
    """State and error of each run of these system jobs, once there are so many of each and all are over.

    Others may come due meanwhile.
    """
    query = "SELECT json_extract(body, '$.job'), state, error FROM inbox WHERE kind = 'system' ORDER BY id"
    async with asyncio.timeout(60):
        while True:
            seen = [row for row in await select_rows(gateway, query) if row[0] in counts]
            is_over = all(state in ("done", "dead") for _, state, _ in seen)
            if is_over and Counter(name for name, *_ in seen) == counts:
                return [row[1:] for row in seen]
            await asyncio.sleep(0.02)


@pytest.mark.sqlite
async def test_the_gateway_backs_itself_up_sends_the_summary_and_runs_an_ordered_job(tmp_path: Path):
    backups = tmp_path / "backups"
    async with open_harness(
        tmp_path,
        backup_dir=str(backups),
        usage_summary="daily",
        keep_text_days="30",
        time_zone=name_noon_zone(),
    ) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:Hello@@")
            await gateway.wait_for_texts()
            url = gateway.settings.database_url
            await wait_for_rows(gateway)
        for name in ("backup", "usage", "retention", "database"):
            make_overdue(gateway, name)
        with (
            closing(sqlite3.connect(parse_database_path(url))) as connection,
            connection,
        ):  # the talk was yesterday
            for column in ("received_at", "began_at", "ended_at"):
                connection.execute(f"UPDATE turns SET {column} = {column} - 86400")
            connection.execute("UPDATE model_calls SET created_at = created_at - 86400")
        async with gateway.run():
            settled = await wait_until_settled(gateway, backup=1, usage=1, retention=1, database=1)
            assert set(settled) == {("done", None)}
            [backup] = backups.iterdir()
            assert find_integrity_errors(backup) == []
            backup.unlink()  # another one of the same second would have its name
            [summary] = (await gateway.wait_for_texts(2))[1:]
            assert summary.startswith("Usage, ")
            assert "Turns: 1 (the day before: 0)\nPeople: 1" in summary
            gateway.ann.tap(gateway.api.chat(7).bot_messages[-1], "Chart")
            await gateway.api.wait_until(lambda: gateway.api.calls_of("sendPhoto"))
            assert "backup is ordered" in await job_commands.run_system_job(url, "backup", now=time.time())
            await wait_until_settled(gateway, backup=2)
            assert len(list(backups.iterdir())) == 1
            gateway.ann.send("/forget")
            await gateway.api.wait_until(
                lambda: "My backups still hold all that until" in gateway.texts()[-1]
            )
        assert "backup" in lay_out(await job_commands.list_system_jobs(url))


async def wait_for_rows(gateway: GatewayHarness) -> None:
    """Wait until the rows of the system jobs are there."""
    async with asyncio.timeout(60):
        while not await select_rows(gateway, "SELECT 1 FROM sqlite_master WHERE name = 'jobs'"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        while not await select_rows(gateway, "SELECT 1 FROM jobs"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def select_rows(gateway: GatewayHarness, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(parse_database_path(gateway.settings.database_url))) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.sqlite
async def test_a_backup_that_cannot_be_made_is_logged_at_start_and_reported_to_admins_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").touch()
    settings: dict[str, Any] = {"backup_dir": str(tmp_path / "file"), "time_zone": name_noon_zone()}
    async with running_gateway(tmp_path, **settings) as gateway:
        url = gateway.settings.database_url
        gateway.ann.send("@@say:Hi@@")
        await gateway.wait_for_texts()
        await wait_for_rows(gateway)
        problem = f"No backup could be made in {tmp_path / 'file'}: File exists."
        await wait_until(lambda: problem in caplog.text)
        await job_commands.run_system_job(url, "backup", now=time.time())
        [_, notice] = await gateway.wait_for_texts(2)
        assert notice == f"The system job backup failed: {problem}"
        await wait_until_settled(gateway, backup=1)
        await job_commands.run_system_job(url, "backup", now=time.time())
        await wait_until_settled(gateway, backup=2)
        make_older(gateway, "backup", days=3)
        await job_commands.run_system_job(url, "backup-age", now=time.time())
        age_notice = (await gateway.wait_for_texts(3))[2]
        assert age_notice.startswith("No backup has succeeded since ")
        gateway.ann.send("@@say:Hello@@")
        assert await gateway.wait_for_texts(4) == ["Hi", notice, age_notice, "Hello"]


async def test_only_admins_have_everybodys_picture(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        bob = gateway.api.person(8, "Bob")
        bob.send("@@say:Hello@@")
        await gateway.wait_for_texts(1, chat=8)
        bob.send("/usage")
        await gateway.wait_for_texts(2, chat=8)
        gateway.api.chat(8).bot_messages[-1].buttons[1]["callback_data"] = "picture:all"
        bob.tap(gateway.api.chat(8).bot_messages[-1], "Chart")
        bob.send("@@say:Again@@")
        assert (await gateway.wait_for_texts(3, chat=8))[2] == "Again"
