"""[10 min], [1 h] and [Tomorrow] below a reminder: it comes once more, for its person alone."""

import json
from datetime import datetime

import pytest
from sqlalchemy import select

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import jobs, outbox
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import outbox as outbox_table
from bot.domain import Lane
from bot.jobs.times import rrules
from bot.jobs.user_jobs import JobLimits
from tests.support.update_harness import ANNA, BOB, SentMessage, UpdateHarness

BERLIN = rrules.load_zone("Europe/Berlin")
NOW = rrules.to_timestamp(datetime(2026, 10, 24, 18, 0), BERLIN)  # the clock is put back that night
DAILY = "DTSTART:20261001T180000\nRRULE:FREQ=DAILY;BYHOUR=18;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(
        database, job_limits=JobLimits(max_per_person=3, max_total=9, default_zone="Europe/Berlin")
    )
    harness.now = NOW
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


async def show_reminder(harness: UpdateHarness, rule: str | None = None, text: str = "tea") -> SentMessage:
    """Have a reminder of Anna's come now, and be delivered as message 77."""
    async with harness.database.transaction() as tx:
        new = NewJob("reminder", harness.now, "Europe/Berlin", rule, text=text, person=ANNA, lane=Lane(ANNA))
        job = await jobs.find(tx, await jobs.add(tx, new, now=harness.now))
        assert job is not None
        next_due = harness.now + 86_400 if rule else None
        fired = jobs.FiredJob(job.id, harness.now, harness.now, next_due, jobs.build_inbox_row(job))
        await jobs.fire(tx, [fired], now=harness.now)
    return await deliver_due(harness)


async def deliver_due(harness: UpdateHarness) -> SentMessage:
    [sent] = await harness.handle_claimed()
    async with harness.database.transaction() as tx:
        while row := await outbox.take(tx, Lane(ANNA)):
            message_id = row.message_id or 70 + row.id
            await outbox.mark_shown(tx, row.id, message_id=message_id, body=row.body, now=harness.now)
    return sent


async def load_shown(harness: UpdateHarness) -> list[tuple[str, list[str], str]]:
    """The text, the buttons and the state of each message of the outbox."""
    async with harness.database.read_transaction() as tx:
        rows = (await tx.execute(select(outbox_table).order_by(outbox_table.c.id))).all()
    bodies = [json.loads(row.body) for row in rows]
    return [
        (body["text"], [button["label"] for row in body["buttons"] for button in row], row.state)
        for row, body in zip(rows, bodies, strict=True)
    ]


async def load_jobs(harness: UpdateHarness) -> list[Job]:
    async with harness.database.read_transaction() as tx:
        return sorted(await jobs.list_of_person(tx, ANNA), key=lambda job: job.id)


@pytest.mark.parametrize(
    ("label", "seconds_later", "due", "line"),
    [
        ("10 min", 30, "2026-10-24 18:10", "Again at 18:10."),
        ("1 h", 0, "2026-10-24 19:00", "Again at 19:00."),
        ("1 h", 5.5 * 3600, "2026-10-25 00:30", "Again tomorrow at 00:30."),
        ("Tomorrow", 1200, "2026-10-25 18:00", "Again tomorrow at 18:00."),
        ("Tomorrow", 3 * 86_400, "2026-10-28 18:00", "Again tomorrow at 18:00."),
    ],
)
async def test_a_reminder_comes_once_more_at_the_time_that_is_tapped(
    harness: UpdateHarness, label: str, seconds_later: float, due: str, line: str
):
    sent = await show_reminder(harness)
    assert (sent.text, list(sent.buttons)) == ("⏰ tea", ["10 min", "1 h", "Tomorrow"])
    harness.now += seconds_later
    for _ in range(2):
        assert (await harness.tap(sent.buttons[label]))[0] == line
    assert (await harness.tap(sent.buttons["10 min"]))[0] == line
    [job] = [job for job in await load_jobs(harness) if job.name]
    assert job.next_due is not None
    assert f"{rrules.to_local_time(job.next_due, BERLIN):%Y-%m-%d %H:%M}" == due
    assert (job.kind, job.rule, job.text, job.lane) == ("reminder", None, "tea", Lane(ANNA))
    assert await load_shown(harness) == [(f"⏰ tea\n\n{line}", [], "open")]


async def test_tomorrow_is_that_of_the_persons_own_zone(harness: UpdateHarness):
    sent = await show_reminder(harness)
    async with harness.database.transaction() as tx:
        await people.set_time_zone(tx, ANNA, "Asia/Tokyo")  # where it is 1:00 of the next day
    await harness.tap(sent.buttons["Tomorrow"])
    [job] = [job for job in await load_jobs(harness) if job.name]
    assert job.next_due == rrules.to_timestamp(datetime(2026, 10, 26, 1, 0), rrules.load_zone("Asia/Tokyo"))
    assert job.zone == "Asia/Tokyo"


async def test_a_recurring_reminder_goes_on_beside_its_snooze(harness: UpdateHarness):
    sent = await show_reminder(harness, DAILY)
    await harness.tap(sent.buttons["10 min"])
    assert [(job.rule, job.text) for job in await load_jobs(harness)] == [(DAILY, "tea"), (None, "tea")]


@pytest.mark.parametrize("is_restored", [False, True])
async def test_a_deleted_snooze_is_not_promised_and_can_be_set_again(
    harness: UpdateHarness, is_restored: bool
):
    sent = await show_reminder(harness)
    await harness.tap(sent.buttons["10 min"])
    [snooze] = [job for job in await load_jobs(harness) if job.name]
    await harness.tap(f"job:delete:{snooze.id}:0")
    assert await load_shown(harness) == [("⏰ tea", ["10 min", "1 h", "Tomorrow"], "open")]
    assert Lane(ANNA) in harness.commits.lanes
    if is_restored:
        await harness.tap(f"job:restore:{snooze.id}:0")
    line = "Again at 18:10." if is_restored else "Again at 19:00."
    assert (await harness.tap(sent.buttons["1 h"]))[0] == line
    assert await load_shown(harness) == [(f"⏰ tea\n\n{line}", [], "open")]
    assert len([job for job in await load_jobs(harness) if job.name]) == 1


async def test_a_snooze_that_has_come_is_not_set_again_by_its_old_message(harness: UpdateHarness):
    sent = await show_reminder(harness)
    await harness.tap(sent.buttons["10 min"])
    [snooze] = [job for job in await load_jobs(harness) if job.name]
    harness.now += 600
    async with harness.database.transaction() as tx:
        fired = jobs.FiredJob(snooze.id, harness.now, harness.now, None, jobs.build_inbox_row(snooze))
        await jobs.fire(tx, [fired], now=harness.now)
    again = await deliver_due(harness)
    assert (again.text, list(again.buttons)) == ("⏰ tea", ["10 min", "1 h", "Tomorrow"])
    assert (await harness.tap(sent.buttons["1 h"]))[0] == "I've already sent this reminder again."
    assert (await harness.tap(again.buttons["1 h"]))[0] == "Again at 19:10."


async def test_only_its_person_can_snooze_it_and_only_while_it_is_kept(harness: UpdateHarness):
    sent = await show_reminder(harness)
    gone = "This reminder no longer exists."
    assert (await harness.tap(sent.buttons["10 min"], BOB))[0] == gone
    for forged in ("snooze:", "snooze:1y:1", "snooze:10m:x", "snooze:10m:99", "snooze:10m:" + "9" * 30):
        assert (await harness.tap(forged))[0] == gone
    assert not [job for job in await load_jobs(harness) if job.name]


async def test_a_snooze_counts_as_a_job(harness: UpdateHarness):
    sent = await show_reminder(harness)
    for number in range(2):
        await show_reminder(harness, DAILY, f"water {number}")
    toast, _ = await harness.tap(sent.buttons["10 min"])
    assert (
        toast == "You already have 3 reminders and tasks, the most you can have. Delete one with /jobs first."
    )


async def test_a_reminder_of_unknown_outcome_that_came_all_the_same_shows_its_snooze(harness: UpdateHarness):
    sent = await show_reminder(harness)
    async with harness.database.transaction() as tx:
        await tx.execute(outbox_table.update().values(state="unknown", message_id=None))
    await harness.tap(sent.buttons["10 min"])
    [edit] = harness.bot.calls_of("edit_message_text")
    assert edit["given"][0] == "⏰ tea\n\nAgain at 18:10."
