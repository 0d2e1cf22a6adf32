"""A due task is a turn of its own, behind people; whose job is gone, or who lost access, is passed over."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, jobs
from bot.db.queues import job_outcomes as settling
from bot.db.queues.job_outcomes import MOST_FAILURES
from bot.db.queues.jobs import NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as table
from bot.db.tables import outbox, turns
from bot.domain import PEOPLE, TASKS, InboxItem, Lane
from bot.jobs.outcomes import Settling
from bot.telegram.access import Access
from bot.telegram.runners.tasks import DUE, SHOWN, Tasks
from tests.support.update_harness import ANNA, TurnsStandIn

NOW = 1_795_176_000.0
HOURLY = "DTSTART:20261101T000000\nRRULE:FREQ=HOURLY"


@dataclass
class Desk:
    """Due tasks of Anna's over a real database."""

    database: Database
    turns: TurnsStandIn
    access: Access = field(default_factory=lambda: Access("pairing"))
    woken: list[Lane] = field(default_factory=list)

    def tasks(self) -> Tasks:
        return Tasks(self.database, self.access, self.turns, lambda _: None, lambda: NOW)

    async def due(self, text: str = "the news", *, rule: str | None = HOURLY, late: float = 0.0) -> InboxItem:
        """An item of a job that is due now, claimed."""
        async with self.database.transaction() as tx:
            new = NewJob("task", NOW, "UTC", rule, text=text, person=ANNA, lane=Lane(ANNA))
            job = await jobs.find(tx, await jobs.add(tx, new, now=NOW))
            assert job is not None
            await jobs.run_now(tx, job.id, jobs.inbox_row(job, late=late), now=NOW)
            if rule is None:
                await jobs.set_next(tx, job.id, None)
            [[item]] = (await inbox.claim(tx, now=NOW)).groups
        return item

    async def settled(self, item: InboxItem, ending: str | None) -> dict[str, object]:
        """The job once its item is done and its turn has ended like this; None: it is set aside."""
        settling = Settling(self.database, self.woken.append, clock=lambda: NOW)

        async def end(items: tuple[InboxItem, ...], why: str = "") -> None:
            async with self.database.transaction() as tx:
                if ending is None:
                    await inbox.dead(tx, [items[0].id], error=why, now=NOW)
                    return
                row = {
                    "item": item.id,
                    "lane": str(ANNA),
                    "person": ANNA,
                    "conversation": 1,
                    "state": "ended",
                }
                row |= {
                    "tools": "[]",
                    "thinking": False,
                    "thinking_why": "",
                    "received_at": NOW,
                    "began_at": NOW,
                }
                await tx.execute(turns.insert().values(row | {"ending": ending}))
                await inbox.done(tx, [item.id], now=NOW)

        await (
            settling.behind_giving_up(end)((item,), "why")
            if ending is None
            else settling.behind(end)((item,))
        )
        async with self.database.reading() as tx:
            return dict((await tx.execute(select(table).where(table.c.id == item.job))).one()._asdict())

    async def told(self) -> list[str]:
        async with self.database.reading() as tx:
            return [str(body) for body in (await tx.execute(select(outbox.c.body))).scalars()]


@pytest.fixture
async def desk(database: Database) -> Desk:
    desk = Desk(database, TurnsStandIn(database))
    async with database.transaction() as tx:
        await people.put(tx, ANNA, "Anna", "member", by=1, now=NOW)
    await desk.access.load(database)
    return desk


async def test_a_due_task_is_asked_as_its_owner_behind_people_and_its_answer_says_what_it_is_about(
    desk: Desk,
):
    await desk.tasks()((await desk.due("the  news " + "x" * 99),))
    [ask] = desk.turns.asks
    assert (ask.person, ask.name, ask.lane, ask.priority) == (ANNA, "Anna", Lane(ANNA), TASKS)
    assert ask.texts == (DUE + "the  news " + "x" * 99,)
    assert ask.preface.startswith("🤖 the news xxx")
    assert ask.preface.endswith("x…\n\n")
    assert len(ask.preface) < SHOWN + 9


async def test_a_task_that_comes_late_says_so(desk: Desk):
    await desk.tasks()((await desk.due(late=7200.0),))
    assert "2 hours ago, while I was away" in desk.turns.asks[0].preface


async def test_a_task_that_is_no_job_is_asked_as_it_was(desk: Desk):
    async with desk.database.transaction() as tx:
        body = {"person": ANNA, "name": "Anna", "texts": ["again"]}
        await inbox.add(tx, kind="task", lane=Lane(ANNA), sender=ANNA, body=body, now=NOW)
        [items] = (await inbox.claim(tx, now=NOW)).groups
    await desk.tasks()(items)
    assert (desk.turns.asks[0].texts, desk.turns.asks[0].priority) == (("again",), PEOPLE)


async def test_a_task_whose_job_was_deleted_is_not_done(desk: Desk):
    item = await desk.due()
    async with desk.database.transaction() as tx:
        await jobs.remove(tx, item.job or 0, person=ANNA)
    await desk.tasks()((item,))
    assert desk.turns.asks == []
    async with desk.database.reading() as tx:
        assert (await tx.execute(select(inbox_table.c.state))).scalars().all() == ["done"]
        assert await settling.unsettled(tx) == []


async def test_whoever_lost_access_is_not_answered_and_has_no_jobs_any_more(desk: Desk):
    item = await desk.due()
    desk.access.forget(ANNA)
    await desk.tasks()((item,))
    assert desk.turns.asks == []
    async with desk.database.reading() as tx:
        assert await jobs.of_person(tx, ANNA) == []


@pytest.mark.parametrize("ending", ["away", "refused", "too_long", "limit", "seconds", "empty", None])
async def test_a_task_is_paused_when_it_has_failed_three_times_in_a_row_and_its_person_is_told(
    desk: Desk, ending: str | None
):
    item = await desk.due()
    async with desk.database.transaction() as tx:
        await tx.execute(update(table).values(failures=MOST_FAILURES - 1))
    job = await desk.settled(item, ending)
    assert (job["state"], job["failures"], bool(job["why_paused"])) == ("paused", MOST_FAILURES, True)
    [told] = await desk.told()
    assert f"I paused #{item.job}, “the news”: it failed 3 times in a row" in told
    assert "Resume" in told
    assert desk.woken == [Lane(ANNA)]


async def test_a_failure_before_the_third_is_counted_and_one_that_went_well_begins_anew(desk: Desk):
    first = await desk.settled(await desk.due(), "away")
    assert (first["state"], first["failures"]) == ("active", 1)
    item = await desk.due()
    async with desk.database.transaction() as tx:
        await tx.execute(update(table).values(failures=2))
    well = await desk.settled(item, "answered")
    assert (well["state"], well["failures"]) == ("active", 0)
    assert await desk.told() == []
    assert desk.woken == []


async def test_what_happens_once_is_over_however_it_went(desk: Desk):
    job = await desk.settled(await desk.due(rule=None), "away")
    assert (job["state"], job["failures"]) == ("done", 1)


async def test_what_came_of_a_due_time_is_counted_once(desk: Desk):
    item = await desk.due()
    await desk.settled(item, "away")
    async with desk.database.transaction() as tx:
        await settling.settle(tx, item.job or 0, item.due_at or 0.0)
        assert await settling.unsettled(tx) == []
    async with desk.database.reading() as tx:
        assert (await tx.execute(select(table.c.failures))).scalars().all() == [1]


async def test_a_job_that_its_person_paused_meanwhile_stays_theirs(desk: Desk):
    item = await desk.due()
    async with desk.database.transaction() as tx:
        await jobs.pause(tx, item.job or 0)
        await tx.execute(update(table).values(failures=MOST_FAILURES))
    job = await desk.settled(item, "away")
    assert (job["state"], job["why_paused"]) == ("paused", None)
    assert await desk.told() == []
