"""A due task is a turn of its own, behind people; it is dropped if its job is gone or access was lost."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import select, update

from bot.chat.access import Access
from bot.chat.tasks import DUE_TASK_PREFIX, MAX_PREVIEW_CHARS, TaskRunner, UnansweredEnd
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, job_outcomes, jobs
from bot.db.queues.job_outcomes import MAX_FAILURES
from bot.db.queues.jobs import NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.db.tables import outbox, turns
from bot.domain import PEOPLE_PRIORITY, TASKS_PRIORITY, InboxItem, Lane
from bot.jobs.outcomes import JobOutcomes
from bot.translations.translator import ENGLISH
from tests.support.groups import build_directory
from tests.support.update_harness import ANNA, FakeTurnService

NOW = 1_795_176_000.0
HOURLY = "DTSTART:20261101T000000\nRRULE:FREQ=HOURLY"


@dataclass
class TaskHarness:
    """Due tasks of Anna's over a real database."""

    database: Database
    turns: FakeTurnService
    access: Access = field(default_factory=lambda: Access("pairing"))

    def build_runner(self) -> TaskRunner:
        end_unanswered = UnansweredEnd(self.database, lambda _: None, lambda: NOW)
        return TaskRunner(
            self.database, self.access, build_directory(), self.turns, end_unanswered, lambda: NOW
        )

    async def claim_due_item(
        self, text: str = "the news", *, rule: str | None = HOURLY, late: float = 0.0
    ) -> InboxItem:
        """Claim an item of a job that is due now."""
        async with self.database.transaction() as tx:
            new = NewJob("task", NOW, "UTC", rule, text=text, person=ANNA, lane=Lane(ANNA))
            job = await jobs.find(tx, await jobs.add(tx, new, now=NOW))
            assert job is not None
            await jobs.run_now(tx, job.id, jobs.build_inbox_row(job, late=late), now=NOW)
            if rule is None:
                await jobs.set_next_due(tx, job.id, None)
            [[item]] = (await inbox.claim(tx, now=NOW)).groups
        return item

    async def load_job_after(self, item: InboxItem, ending: str | None) -> dict[str, object]:
        """Return the job once its item is done and its turn has ended so; None: the item is a dead letter."""
        job_outcomes = JobOutcomes(self.database, lambda person: ENGLISH, clock=lambda: NOW)

        async def end(items: tuple[InboxItem, ...], reason: str = "") -> None:
            async with self.database.transaction() as tx:
                if ending is None:
                    await inbox.mark_dead(tx, [items[0].id], error=reason, now=NOW)
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
                await inbox.mark_done(tx, [item.id], now=NOW)

        await (
            job_outcomes.record_after_giving_up(end)((item,), "why")
            if ending is None
            else job_outcomes.record_after(end)((item,))
        )
        async with self.database.read_transaction() as tx:
            return dict(
                (await tx.execute(select(jobs_table).where(jobs_table.c.id == item.job))).one()._asdict()
            )

    async def load_outbox_bodies(self) -> list[str]:
        async with self.database.read_transaction() as tx:
            return [str(body) for body in (await tx.execute(select(outbox.c.body))).scalars()]


@pytest.fixture
async def harness(database: Database) -> TaskHarness:
    harness = TaskHarness(database, FakeTurnService(database))
    async with database.transaction() as tx:
        await people.put(tx, ANNA, "Anna", "member", let_in_by=1, now=NOW)
    await harness.access.load(database)
    return harness


async def test_a_due_task_is_asked_as_its_owner_behind_people_and_its_answer_says_what_it_is_about(
    harness: TaskHarness,
):
    await harness.build_runner()((await harness.claim_due_item("the  news " + "x" * 99),))
    [request] = harness.turns.requests
    assert (request.person, request.name, request.lane, request.priority) == (
        ANNA,
        "Anna",
        Lane(ANNA),
        TASKS_PRIORITY,
    )
    assert request.texts == (DUE_TASK_PREFIX + "the  news " + "x" * 99,)
    assert request.preface.startswith("🤖 the news xxx")
    assert request.preface.endswith("x…\n\n")
    assert len(request.preface) < MAX_PREVIEW_CHARS + 9


async def test_a_task_that_comes_late_says_so(harness: TaskHarness):
    await harness.build_runner()((await harness.claim_due_item(late=7200.0),))
    assert "2 hours ago, while I was away" in harness.turns.requests[0].preface


async def test_a_task_that_is_no_job_is_asked_as_it_was(harness: TaskHarness):
    async with harness.database.transaction() as tx:
        body = {"person": ANNA, "name": "Anna", "texts": ["again"]}
        await inbox.add(tx, kind="task", lane=Lane(ANNA), sender=ANNA, body=body, now=NOW)
        [items] = (await inbox.claim(tx, now=NOW)).groups
    await harness.build_runner()(items)
    assert (harness.turns.requests[0].texts, harness.turns.requests[0].priority) == (
        ("again",),
        PEOPLE_PRIORITY,
    )


async def test_a_task_whose_job_was_deleted_is_not_done(harness: TaskHarness):
    item = await harness.claim_due_item()
    async with harness.database.transaction() as tx:
        await jobs.remove(tx, item.job or 0, person=ANNA)
    await harness.build_runner()((item,))
    assert harness.turns.requests == []
    async with harness.database.read_transaction() as tx:
        assert (await tx.execute(select(inbox_table.c.state))).scalars().all() == ["done"]
        assert await job_outcomes.list_unrecorded(tx) == []


async def test_a_person_without_access_is_not_answered_and_has_no_jobs_any_more(harness: TaskHarness):
    item = await harness.claim_due_item()
    harness.access.forget(ANNA)
    await harness.build_runner()((item,))
    assert harness.turns.requests == []
    async with harness.database.read_transaction() as tx:
        assert await jobs.list_of_person(tx, ANNA) == []


@pytest.mark.parametrize("ending", ["away", "refused", "too_long", "limit", "seconds", "empty", None])
async def test_a_task_that_has_failed_three_times_in_a_row_is_paused_and_its_person_notified(
    harness: TaskHarness, ending: str | None
):
    item = await harness.claim_due_item()
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).values(failures=MAX_FAILURES - 1))
    job = await harness.load_job_after(item, ending)
    assert (job["state"], job["failures"], bool(job["why_paused"])) == ("paused", MAX_FAILURES, True)
    [notice] = await harness.load_outbox_bodies()
    assert "I paused “the news”: it failed 3 times in a row" in notice
    assert "Resume" in notice


async def test_a_failure_before_the_third_is_counted_and_one_that_went_well_begins_anew(harness: TaskHarness):
    first = await harness.load_job_after(await harness.claim_due_item(), "away")
    assert (first["state"], first["failures"]) == ("active", 1)
    item = await harness.claim_due_item()
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).values(failures=2))
    well = await harness.load_job_after(item, "answered")
    assert (well["state"], well["failures"]) == ("active", 0)
    assert await harness.load_outbox_bodies() == []


async def test_what_happens_once_is_over_however_it_went(harness: TaskHarness):
    job = await harness.load_job_after(await harness.claim_due_item(rule=None), "away")
    assert (job["state"], job["failures"]) == ("done", 1)


async def test_what_came_of_a_due_time_is_counted_once(harness: TaskHarness):
    item = await harness.claim_due_item()
    await harness.load_job_after(item, "away")
    async with harness.database.transaction() as tx:
        await job_outcomes.record_outcome(tx, item.job or 0, item.due_at or 0.0)
        assert await job_outcomes.list_unrecorded(tx) == []
    async with harness.database.read_transaction() as tx:
        assert (await tx.execute(select(jobs_table.c.failures))).scalars().all() == [1]


async def test_a_job_that_its_person_paused_meanwhile_stays_theirs(harness: TaskHarness):
    item = await harness.claim_due_item()
    async with harness.database.transaction() as tx:
        await jobs.pause(tx, item.job or 0)
        await tx.execute(update(jobs_table).values(failures=MAX_FAILURES))
    job = await harness.load_job_after(item, "away")
    assert (job["state"], job["why_paused"]) == ("paused", None)
    assert await harness.load_outbox_bodies() == []
