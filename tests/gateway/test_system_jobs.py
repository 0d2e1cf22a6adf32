"""The house's own jobs: rows as the settings want them, each done once when it is due or ordered, failures
told.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.cli import system_jobs as orders
from bot.db.engine import Database, file_of
from bot.db.maintenance.backup import faults
from bot.db.people import people
from bot.db.queues import inbox, jobs
from bot.db.queues.admin_notices import Notices
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox
from bot.domain import InboxItem, Lane, Part
from bot.errors import JobFailed, NothingFound, StoreUnavailable
from bot.jobs.scheduler import Schedule
from bot.jobs.system_jobs import Jobs, Rota, Routine, Where, daily, weekly
from tests.support.gateway import World, open_house, world

NIGHT = 1_795_060_800.0  # 19 November 2026, 04:00 UTC: a Thursday, 05:00 in Berlin
HOUR = 3600.0
FAR = "DTSTART:20260105T033000\nRRULE:FREQ=DAILY"


@dataclass
class Bench:
    """House jobs over a real database, with a clock of their own; `told` are what admins read."""

    database: Database
    file: Path
    now: float = NIGHT
    ran: list[str] = field(default_factory=list)
    fails: Exception | None = None
    letter: Part | None = None
    woken: list[Lane] = field(default_factory=list)
    zone: str = "UTC"

    def routines(self) -> tuple[Routine, ...]:
        return (
            Routine("care", "looks", daily("03:30"), self.work("care")),
            Routine("report", "tells", weekly("08:00"), self.work("report")),
            Routine("read", "reads", None, self.work("read")),
        )

    def work(self, name: str) -> Callable[[], Any]:
        async def working() -> Part | None:
            self.ran.append(name)
            if self.fails is not None:
                raise self.fails
            return self.letter

        return working

    def rota(
        self, routines: tuple[Routine, ...] | None = None, wake: Callable[[], None] = lambda: None
    ) -> Rota:
        where = Where(self.file, self.zone, lambda: self.now)
        mine = self.routines() if routines is None else routines
        return Rota(self.database, mine, where, look=lambda: None, wake=wake)

    def runner(self) -> Jobs:
        return Jobs(self.database, self.routines(), {"other": self.other}, Notices([7]), self.woken.append)

    async def other(self, items: tuple[InboxItem, ...]) -> None:
        self.ran.append(f"other {items[0].id}")

    async def due(self) -> None:
        """What the schedule does now."""
        await Schedule(self.database, lambda: None, lambda: self.now).write()

    async def work_off(self) -> None:
        """Run what waits in the inbox."""
        async with self.database.transaction() as tx:
            groups = (await inbox.claim(tx, now=self.now)).groups
        for group in groups:
            await self.runner()(group)

    async def told(self) -> list[str]:
        async with self.database.reading() as tx:
            return [body.split('"')[3] for body in (await tx.execute(select(outbox.c.body))).scalars()]

    async def rows(self) -> dict[str | None, jobs.Job]:
        async with self.database.reading() as tx:
            return {one.name: one for one in await jobs.of_house(tx)}


@pytest.fixture
async def bench(database: Database, database_url: str) -> Bench:
    return Bench(database, file_of(database_url))


async def test_rows_are_made_once_follow_the_settings_and_go_with_them(bench: Bench):
    await bench.rota().keep()
    found = await bench.rows()
    assert (found["care"].next_due, found["report"].next_due) == (NIGHT + 23.5 * HOUR, NIGHT + 100 * HOUR)
    assert found["read"].next_due is None
    bench.now += 24 * HOUR
    await bench.rota().keep()
    assert await bench.rows() == found  # what was missed meanwhile is still due
    bench.zone = "Europe/Berlin"
    await bench.rota(bench.routines()[:2]).keep()
    found = await bench.rows()
    assert set(found) == {"care", "report"}
    assert found["care"].next_due == NIGHT + 46.5 * HOUR
    await bench.rota(()).keep()
    assert await bench.rows() == {}


async def test_a_job_is_done_when_it_is_due_and_a_backlog_once(bench: Bench):
    await bench.rota().keep()
    await bench.due()
    await bench.work_off()
    assert bench.ran == []
    bench.now += 100 * HOUR + 1  # the house was away for four nights
    await bench.due()
    await bench.due()
    await bench.work_off()
    assert sorted(bench.ran) == ["care", "report"]
    found = await bench.rows()
    assert found["care"].next_due == NIGHT + 119.5 * HOUR
    assert found["care"].failures == 0
    assert found["care"].last_done is not None


async def test_a_job_that_fails_is_told_once_and_once_more_when_it_works_again(bench: Bench):
    await bench.rota().keep()
    bench.fails = JobFailed("The disk is full.")
    for night in range(3):
        bench.now = NIGHT + (24 + 24 * night) * HOUR
        await bench.due()
        await bench.work_off()
        assert (await bench.rows())["care"].failures == night + 1
    assert await bench.told() == ["The house job care failed: The disk is full."]
    assert bench.woken == [Lane(7)]
    bench.fails = None
    bench.now += 24 * HOUR
    await bench.due()
    await bench.work_off()
    assert (await bench.told())[1:] == ["The house job care works again."]
    bench.fails = RuntimeError("a bug")
    bench.now += 24 * HOUR
    await bench.due()
    await bench.work_off()
    assert sorted((await bench.told())[2:]) == [
        "The house job care failed: The log says why.",
        "The house job report failed: The log says why.",
    ]


async def test_what_admins_are_to_read_is_written_down_with_the_end_of_the_job(bench: Bench):
    await bench.rota().keep()
    bench.letter = Part("42 turns", silent=True)
    async with bench.database.transaction() as tx:
        await people.put(tx, 8, "Bob", "admin", now=1.0)
    bench.now += 24 * HOUR
    await bench.due()
    await bench.work_off()
    assert await bench.told() == ["42 turns", "42 turns"]
    assert bench.woken == [Lane(7), Lane(8)]


async def test_a_database_that_is_busy_is_waited_for_and_other_items_have_their_own_runners(bench: Bench):
    await bench.rota().keep()
    bench.fails = StoreUnavailable("locked")
    bench.now += 24 * HOUR
    await bench.due()
    with pytest.raises(StoreUnavailable):
        await bench.work_off()
    async with bench.database.transaction() as tx:
        await inbox.recover(tx, now=bench.now)
        await inbox.add(tx, kind="house", lane=None, sender=None, body={"job": "other"}, now=bench.now)
        await inbox.add(tx, kind="house", lane=None, sender=None, body={"job": "gone"}, now=bench.now)
    bench.fails = None
    await bench.work_off()
    assert bench.ran == ["care", "care", "other 2"]  # and what nobody knows any more is done with
    async with bench.database.reading() as tx:
        states = (
            await tx.execute(select(inbox_table.c.id, inbox_table.c.state).order_by(inbox_table.c.id))
        ).all()
    assert [tuple(row) for row in states] == [(1, "done"), (2, "running"), (3, "done")]


async def test_jobs_are_listed_and_one_that_is_ordered_is_heard_of(bench: Bench, database_url: str):
    woken: list[int] = []
    rota = bench.rota(wake=lambda: woken.append(1))
    with pytest.raises(NothingFound, match="no jobs yet"):
        await orders.listed(database_url)
    with pytest.raises(NothingFound, match="none yet"):
        await orders.order(database_url, "care", now=NIGHT)
    await rota.keep()
    await rota.listen()
    assert woken == []
    with pytest.raises(NothingFound, match=r"no house job 'backup'\. There are: care, read, report\."):
        await orders.order(database_url, "backup", now=NIGHT)
    assert "care is ordered." in await orders.order(database_url, "care", now=NIGHT)
    assert await orders.order(database_url, "care", now=NIGHT + 1) == "care is ordered already, or at work."
    await rota.listen()
    await rota.listen()  # nothing was written since: nothing is asked
    assert woken == [1]
    assert "waits" in await orders.listed(database_url)


async def test_the_list_says_when_each_is_due_and_how_it_went(bench: Bench, database_url: str):
    await bench.rota().keep()
    await orders.order(database_url, "care", now=NIGHT)
    bench.fails = JobFailed("No way.")
    await bench.work_off()
    async with bench.database.transaction() as tx:
        new = jobs.NewJob("reminder", NIGHT + 9, "UTC", person=7, lane=Lane(7))
        await jobs.add(tx, new, now=NIGHT)
        await tx.execute(update(inbox_table).values(received_at=NIGHT))
    listed = (await orders.listed(database_url)).splitlines()
    assert listed[0].split("  ")[0] == "job"
    assert listed[1] == "care    2026-11-20 03:30  2026-11-19 04:00  failed: No way.  looks"
    assert listed[2] == "read    by its own clock  –                 never ran        reads"
    assert listed[-2:] == ["Times are of UTC.", "Jobs of people: 1 active."]
    with closing(sqlite3.connect(bench.file)) as connection, connection:
        connection.execute(
            "INSERT INTO readings (endpoint, read_at, totals, running, why) VALUES ('x', ?, '{}', 0, '')",
            [NIGHT],
        )
    assert "by its own clock  2026-11-19 04:00  ok " in await orders.listed(database_url)


async def test_without_a_log_there_is_nothing_to_hear(bench: Bench, tmp_path: Path):
    where = Where(tmp_path / "nowhere.db")
    await Rota(bench.database, (), where, look=lambda: None, wake=lambda: pytest.fail("woken")).listen()


def past(house: World, name: str) -> None:
    """A job was due long ago."""
    with closing(sqlite3.connect(file_of(house.settings.database_url))) as connection, connection:
        changed = connection.execute(
            "UPDATE jobs SET next_due = ? WHERE name = ?", [time.time() - 9 * HOUR, name]
        )
        assert changed.rowcount == 1


async def settled(house: World, count: int) -> list[tuple[Any, ...]]:
    """The house's items once there are so many and all are over."""
    query = "SELECT json_extract(body, '$.job'), state, error FROM inbox WHERE kind = 'house' ORDER BY id"
    async with asyncio.timeout(30):
        while True:
            seen = await found(house, query)
            if len(seen) == count and all(row[1] in ("done", "dead") for row in seen):
                return seen
            await asyncio.sleep(0.02)


async def test_the_whole_house_backs_itself_up_tells_what_was_used_and_hears_an_order(tmp_path: Path):
    backups = tmp_path / "backups"
    async with world(tmp_path, backup_dir=str(backups), usage_summary="daily", keep_text_days="30") as house:
        async with house.gateway():
            house.ann.send("@@say:Hello@@")
            await house.answered()
            url = house.settings.database_url
            await kept(house)
        for name in ("backup", "usage", "retention", "database"):
            past(house, name)
        with closing(sqlite3.connect(file_of(url))) as connection, connection:  # the talk was yesterday
            for column in ("received_at", "began_at", "ended_at"):
                connection.execute(f"UPDATE turns SET {column} = {column} - 86400")
            connection.execute("UPDATE model_calls SET created_at = created_at - 86400")
        async with house.gateway():
            assert {row[1:] for row in await settled(house, 4)} == {("done", None)}
            [made] = backups.iterdir()
            assert faults(made) == []
            [summary] = (await house.answered(2))[1:]
            assert summary.startswith("Usage, ")
            assert "Turns: 1 of 1 person (the day before: 0)" in summary
            house.ann.tap(house.api.chat(7).from_bot[-1], "Picture")
            await house.api.until(lambda: house.api.calls_of("sendPhoto"), 30)
            assert "backup is ordered" in await orders.order(url, "backup", now=time.time())
            await settled(house, 5)
            assert len(list(backups.iterdir())) == 2
            house.ann.send("/forget")
            await house.api.until(lambda: "A copy of my database holds all that until" in house.texts()[-1])
        assert "backup" in await orders.listed(url)


async def kept(house: World) -> None:
    """Wait until the rows of the house's jobs are there."""
    async with asyncio.timeout(30):
        while not await found(house, "SELECT 1 FROM sqlite_master WHERE name = 'jobs'"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        while not await found(house, "SELECT 1 FROM jobs"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def found(house: World, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file_of(house.settings.database_url))) as connection:
        return connection.execute(query).fetchall()


async def test_a_backup_that_cannot_be_made_is_told_to_admins_once(tmp_path: Path):
    (tmp_path / "file").touch()
    async with open_house(tmp_path, backup_dir=str(tmp_path / "file")) as house:
        url = house.settings.database_url
        house.ann.send("@@say:Hi@@")
        await house.answered()
        await kept(house)
        await orders.order(url, "backup", now=time.time())
        [_, told] = await house.answered(2)
        assert (
            told
            == f"The house job backup failed: No backup could be made in {tmp_path / 'file'}: File exists."
        )
        await settled(house, 1)
        await orders.order(url, "backup", now=time.time())
        assert len(await settled(house, 2)) == 2
        house.ann.send("@@say:Hello@@")
        assert await house.answered(3) == ["Hi", told, "Hello"]


async def test_only_admins_have_everybodys_picture(tmp_path: Path):
    async with open_house(tmp_path, access="open") as house:
        bob = house.api.person(8, "Bob")
        bob.send("@@say:Hello@@")
        await house.answered(1, chat=8)
        bob.send("/usage")
        await house.answered(2, chat=8)
        house.api.chat(8).from_bot[-1].buttons[1]["callback_data"] = "picture:all"
        bob.tap(house.api.chat(8).from_bot[-1], "Picture")
        bob.send("@@say:Again@@")
        assert (await house.answered(3, chat=8))[2] == "Again"
