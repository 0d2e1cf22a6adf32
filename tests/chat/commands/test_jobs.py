"""/remind, /jobs and /zone: what is parsed is confirmed and limited, and only its owner can change it."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.chat.commands.job_cards import NO_JOBS, PAGE_SIZE
from bot.chat.commands.jobs import HOW_TO
from bot.chat.reminders import ZONE_QUESTION
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, job_outcomes, jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.domain import Lane
from bot.jobs.times import rrules
from bot.jobs.user_jobs import MAX_TEXT_CHARS, ZONE_NEEDED, JobLimits
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness

NOW = rrules.to_timestamp(datetime(2026, 11, 20, 16, 0), rrules.load_zone("Europe/Berlin"))  # a Friday
DAY = 86_400.0
DAILY = "DTSTART:20261101T080000\nRRULE:FREQ=DAILY;BYHOUR=8;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(
        database, job_limits=JobLimits(max_per_person=3, max_total=5, default_zone="Europe/Berlin")
    )
    harness.now = NOW
    for person, standing in ((ADMIN, "admin"), (ANNA, "member"), (BOB, "member")):
        await harness.let_in(person, standing)  # type: ignore[arg-type]
    return harness


async def send_command(harness: UpdateHarness, text: str, person: int = ANNA) -> list[str]:
    """Send a command; return what is answered, also by the items that it leaves to be handled."""
    texts = [message.text for message in await harness.send_text(text, person)]
    return texts + [message.text for message in await harness.handle_claimed()]


async def load_jobs(harness: UpdateHarness, person: int = ANNA) -> list[Job]:
    async with harness.database.read_transaction() as tx:
        return sorted(await jobs.list_of_person(tx, person), key=lambda job: job.id)


async def store_job(
    harness: UpdateHarness, person: int = ANNA, rule: str | None = DAILY, **more: object
) -> int:
    values = {"text": "tea", "person": person, "lane": Lane(person), "next_due": NOW + DAY} | more
    new = NewJob("reminder", rule=rule, **({"zone": "Europe/Berlin"} | values))  # type: ignore[arg-type]
    async with harness.database.transaction() as tx:
        return await jobs.add(tx, new, now=NOW)


async def test_a_reminder_is_confirmed_with_its_time_its_zone_and_an_undo_button(harness: UpdateHarness):
    await harness.send_text("/remind tomorrow at nine call Bob")
    [sent] = await harness.handle_claimed()
    assert sent.text == "⏰ I'll remind you: call Bob\nSat 21 Nov 2026, 09:00 (Europe/Berlin)"
    [job] = await load_jobs(harness)
    assert (job.kind, job.text, job.lane, job.rule, job.missed) == (
        "reminder",
        "call Bob",
        Lane(ANNA),
        None,
        "once",
    )
    assert harness.commits.due_times_count == 1
    toast, _ = await harness.tap(sent.buttons["Undo"])
    assert toast == "Undone."
    assert await load_jobs(harness) == []
    assert (await harness.tap(sent.buttons["Undo"]))[0] == "This no longer exists."


async def test_a_recurring_reminder_is_confirmed_with_its_next_three_times(harness: UpdateHarness):
    assert await send_command(harness, "/remind every weekday at 8 stand up") == [
        "⏰ I'll remind you: stand up\nEvery weekday at 08:00. "
        "Next: Mon 23 Nov 2026, 08:00 · Tue 24 Nov 2026, 08:00 · Wed 25 Nov 2026, 08:00 (Europe/Berlin)"
    ]
    await send_command(harness, "/remind every 10 minutes breathe")
    assert [job.missed for job in await load_jobs(harness)] == ["once", "skip"]


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("", HOW_TO.replace("`", "")),
        ("yesterday at 9 call", "That was 31 hours ago."),
        ("every second ping", "That's too often."),
        ("31 february at 9 call", "“31 february” isn't a date."),
        ("call Bob", "I don't know when that is."),
        ("tomorrow at 9", "What should I remind you of?"),
        (
            "tomorrow at 9 " + "x" * (MAX_TEXT_CHARS + 1),
            f"can have {MAX_TEXT_CHARS} characters; this one has {MAX_TEXT_CHARS + 1}",
        ),
    ],
)
async def test_what_cannot_be_parsed_is_refused_with_a_reason_and_not_stored(
    harness: UpdateHarness, line: str, refusal: str
):
    [answer] = await send_command(harness, f"/remind {line}")
    assert refusal in answer
    assert await load_jobs(harness) == []


async def test_the_jobs_of_a_person_and_of_all_are_limited(harness: UpdateHarness):
    for number in range(3):
        await send_command(harness, f"/remind tomorrow at 9 tea {number}")
    assert await send_command(harness, "/remind tomorrow at 9 one more") == [
        "You already have 3 reminders and tasks, the most you can have. Delete one with /jobs first."
    ]
    for number in range(2):
        await send_command(harness, f"/remind tomorrow at 9 tea {number}", BOB)
    [full] = await send_command(harness, "/remind tomorrow at 9 one more", BOB)
    assert full == "This bot is full: it holds at most 5 reminders and tasks."
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).where(jobs_table.c.person == ANNA).values(state="done"))
    assert len(await send_command(harness, "/remind tomorrow at 9 again")) == 1
    assert len(await load_jobs(harness)) == 1


async def test_ten_thousand_jobs_leave_a_clear_answer(database: Database):
    harness = UpdateHarness(
        database, job_limits=JobLimits(max_per_person=10_000, max_total=10_000, default_zone="UTC")
    )
    harness.now = NOW
    await harness.let_in(ANNA)
    async with database.transaction() as tx:
        row = {
            "kind": "reminder",
            "person": ANNA,
            "lane": str(ANNA),
            "text": "tea",
            "zone": "UTC",
            "next_due": NOW + DAY,
        }
        await tx.execute(jobs_table.insert(), [row | {"made_at": NOW}] * 10_000)
    assert await send_command(harness, "/remind tomorrow at 9 tea") == [
        "You already have 10000 reminders and tasks, the most you can have. Delete one with /jobs first."
    ]
    [listed] = await harness.send_text("/jobs")
    assert len(listed.text.splitlines()) == len(listed.buttons) == PAGE_SIZE + 1
    assert list(listed.buttons)[-1] == "11–20 ›"
    [last] = await tap_and_read(harness, "job:page:9999")
    assert last.text.splitlines()[-1] == "10000. ⏰ tea · tomorrow 15:00"
    assert list(last.buttons)[-1] == "‹ 9981–9990"


async def tap_and_read(harness: UpdateHarness, data: str, person: int = ANNA) -> list[SentMessage]:
    """Tap a button; return what the tapped message becomes."""
    before = len(harness.bot.calls_of("edit_message_text"))
    await harness.tap(data, person)
    edits = harness.bot.calls_of("edit_message_text")[before:]
    return [read_edit(edit) for edit in edits]


def read_edit(edit: dict[str, Any]) -> SentMessage:
    keyboard = edit["reply_markup"].inline_keyboard if edit["reply_markup"] else ()
    buttons = {button.text: str(button.callback_data) for row in keyboard for button in row}
    return SentMessage("", edit["given"][0], buttons, silent=False, entities=[])


async def test_the_list_is_by_time_and_has_one_button_for_each_job(harness: UpdateHarness):
    assert await send_command(harness, "/jobs") == [NO_JOBS.replace("`", "")]
    await store_job(harness, rule=None, text="later", next_due=NOW + 9 * DAY)
    await store_job(harness, rule=None, text="soon", next_due=NOW + 600)
    await store_job(harness, text="a text that is too long for one line of a telephone")
    paused = await store_job(harness, rule=None, text="not now", next_due=NOW + 60)
    await store_job(harness, BOB)
    await harness.tap(f"job:pause:{paused}")
    [listed] = await harness.send_text("/jobs")
    assert listed.text.splitlines() == [
        "Your reminders and tasks (Europe/Berlin):",
        "1. ⏰ soon · 16:10",
        "2. ⏰ a text that is too long for one line of… · tomorrow 16:00 🔁",
        "3. ⏰ later · Sun 29 Nov 2026, 16:00",
        "4. ⏰ not now · paused",
    ]
    assert list(listed.buttons) == ["1", "2", "3", "4"]
    [card] = await tap_and_read(harness, listed.buttons["2"])
    assert card.text == (
        "⏰ a text that is too long for one line of a telephone\n\nEvery day at 08:00.\n"
        "Next: Sat 21 Nov 2026, 16:00 (Europe/Berlin)"
    )
    assert list(card.buttons) == ["Pause", "Run now", "Delete", "Change", "‹ All"]
    [again] = await tap_and_read(harness, card.buttons["‹ All"])
    assert (again.text, again.buttons) == (listed.text, listed.buttons)


async def test_a_long_list_has_pages_and_a_card_goes_back_to_its_own(harness: UpdateHarness):
    for number in range(1, 26):
        await store_job(harness, rule=None, text=f"tea {number}", next_due=NOW + number)
    [listed] = await harness.send_text("/jobs")
    assert list(listed.buttons) == [*map(str, range(1, 11)), "11–20 ›"]
    [second] = await tap_and_read(harness, listed.buttons["11–20 ›"])
    assert list(second.buttons) == [*map(str, range(11, 21)), "‹ 1–10", "21–25 ›"]
    [card] = await tap_and_read(harness, second.buttons["12"])
    assert card.text.startswith("⏰ tea 12\n")
    [back] = await tap_and_read(harness, card.buttons["‹ All"])
    assert back.text == second.text
    [direct] = await harness.send_text("/jobs 12")
    assert (direct.text, direct.buttons) == (card.text, card.buttons)
    for unknown in ("/jobs 99", "/jobs tea", "/jobs 0"):
        [sent] = await harness.send_text(unknown)
        assert sent.text == listed.text


async def test_a_job_is_paused_and_resumed_and_never_due_meanwhile(harness: UpdateHarness):
    job = await store_job(harness)
    [card] = await tap_and_read(harness, f"job:pause:{job}:0")
    assert card.text.endswith("Every day at 08:00.\nPaused.")
    assert next(iter(card.buttons)) == "Resume"
    assert (await harness.tap(f"job:pause:{job}"))[0] == "It isn't active."
    async with harness.database.read_transaction() as tx:
        assert await jobs.list_due(tx, now=NOW + 9 * DAY, limit=9) == []
        assert await jobs.find_next_due(tx) is None
    harness.now = NOW + 3 * DAY
    assert (await harness.tap(card.buttons["Resume"]))[0] == "Next: tomorrow 08:00"
    assert harness.commits.due_times_count == 1
    assert (await harness.tap(card.buttons["Resume"]))[0] == "It isn't paused."


async def test_what_happens_once_is_not_resumed_when_its_time_has_passed(harness: UpdateHarness):
    job = await store_job(harness, rule=None)
    await harness.tap(f"job:pause:{job}")
    harness.now = NOW + 2 * DAY
    assert (await harness.tap(f"job:resume:{job}"))[0] == (
        "Its time has passed. You can run it now or delete it."
    )
    harness.now = NOW
    assert (await harness.tap(f"job:resume:{job}"))[0] == "Next: tomorrow 16:00"


async def test_what_happens_once_is_over_when_it_is_run_after_its_time(harness: UpdateHarness):
    late = await store_job(harness, rule=None)
    early = await store_job(harness, rule=None)
    for number, now in ((early, NOW), (late, NOW + 2 * DAY)):
        harness.now = now
        await harness.tap(f"job:pause:{number}")
        await harness.tap(f"job:run:{number}")
        async with harness.database.transaction() as tx:
            await tx.execute(update(inbox_table).values(state="done", done_at=now))
            await job_outcomes.record_outcome(tx, number, now)
    assert [(job.id, job.state) for job in await load_jobs(harness)] == [(early, "paused")]


async def test_a_job_is_run_now_once_at_a_time_and_stays_due(harness: UpdateHarness):
    job = await store_job(harness)
    assert (await harness.tap(f"job:run:{job}"))[0] == "I'll do it now."
    harness.now += 1
    toast, [sent] = await harness.tap(f"job:run:{job}")
    assert (toast, sent.text) == ("I'm already on it.", "⏰ tea")
    [row] = await load_jobs(harness)
    assert (row.next_due, row.last_due) == (NOW + DAY, None)


@pytest.mark.parametrize("paused", [False, True])
async def test_a_job_is_deleted_and_that_can_be_undone(harness: UpdateHarness, paused: bool):
    job = await store_job(harness)
    second = await store_job(harness)
    if paused:
        await harness.tap(f"job:pause:{job}")
    [deleted] = await tap_and_read(harness, f"job:delete:{job}:0")
    assert (deleted.text, list(deleted.buttons)) == ("Deleted: tea", ["Undo", "‹ All"])
    assert [row.id for row in await load_jobs(harness)] == [second]
    for verb in ("open", "pause", "resume", "run", "delete"):
        assert (await harness.tap(f"job:{verb}:{job}"))[0] == "This no longer exists."
    async with harness.database.read_transaction() as tx:
        assert [row.id for row in await jobs.list_due(tx, now=NOW + 9 * DAY, limit=9)] == [second]
    [card] = await tap_and_read(harness, deleted.buttons["Undo"])
    assert next(iter(card.buttons)) == ("Resume" if paused else "Pause")
    assert (await harness.tap(deleted.buttons["Undo"]))[0] == "This no longer exists."
    states = {row.id: row.state for row in await load_jobs(harness)}
    assert states == {job: "paused" if paused else "active", second: "active"}


async def test_a_deletion_stays_undoable_while_the_job_is_fired_and_its_last_run_ends(harness: UpdateHarness):
    recurring = await store_job(harness)
    once = await store_job(harness, rule=None)
    harness.now = NOW + 2 * DAY
    await harness.tap(f"job:run:{once}")
    [first] = await tap_and_read(harness, f"job:delete:{recurring}")
    [second] = await tap_and_read(harness, f"job:delete:{once}")
    async with harness.database.transaction() as tx:
        unreadable = jobs.FiredJob(recurring, NOW + DAY, None, NOW + DAY, pause_reason="It cannot be read.")
        await jobs.fire(tx, [unreadable], now=harness.now)
        await tx.execute(update(inbox_table).values(state="done", done_at=harness.now))
        await job_outcomes.record_outcome(tx, once, harness.now)
    assert await load_jobs(harness) == []
    assert (await harness.tap(first.buttons["Undo"]))[0] == "Next: tomorrow 08:00"
    passed = "Its time has passed. You can run it now or delete it."
    assert (await harness.tap(second.buttons["Undo"]))[0] == passed


async def test_a_deleted_job_comes_back_only_where_another_fits(harness: UpdateHarness):
    first, *_ = [await store_job(harness) for _ in range(3)]
    [deleted] = await tap_and_read(harness, f"job:delete:{first}")
    await store_job(harness)
    toast, _ = await harness.tap(deleted.buttons["Undo"])
    assert toast is not None
    assert toast.startswith("You already have 3 reminders and tasks, the most you can have.")


async def test_what_is_done_cannot_be_undone(harness: UpdateHarness):
    job = await store_job(harness, rule=None)
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).values(state="done", next_due=None))
    assert (await harness.tap(f"job:undo:{job}"))[0] == "This is already done."


@pytest.mark.parametrize(("rule", "zone"), [("nonsense", "Europe/Berlin"), (DAILY, "Mars/Phobos")])
async def test_a_job_that_cannot_be_read_is_listed_and_deleted_and_hinders_nothing(
    harness: UpdateHarness, rule: str, zone: str
):
    job = await store_job(harness, rule=rule)
    async with harness.database.transaction() as tx:
        await tx.execute(
            update(jobs_table).values(
                state="paused", why_paused="its time cannot be read any more", zone=zone
            )
        )
    [listed] = await send_command(harness, "/jobs")
    assert "tea · paused" in listed
    [card] = await harness.send_text("/jobs 1")
    assert "Paused: I can no longer read its time." in card.text
    toast, *_ = await harness.tap(f"job:resume:{job}")
    assert toast is not None
    assert toast.startswith("I can no longer read its time.")
    assert len(await send_command(harness, "/zone Tokyo")) == 1
    assert (await harness.tap(f"job:delete:{job}"))[0] == "Deleted."


@pytest.mark.parametrize("verb", ["undo", "open", "pause", "resume", "run", "delete", "restore"])
async def test_nobody_touches_the_job_of_another(harness: UpdateHarness, verb: str):
    job = await store_job(harness)
    assert (await harness.tap(f"job:{verb}:{job}", BOB))[0] == "This no longer exists."
    assert [row.state for row in await load_jobs(harness)] == ["active"]


@pytest.mark.parametrize("data", ["job:", "job:pause", "job:pause:x", "job:fly:1", "job:pause:" + "9" * 30])
async def test_a_forged_button_is_too_old(harness: UpdateHarness, data: str):
    assert (await harness.tap(data))[0] == "This button is too old."


async def test_a_deleted_job_that_waits_to_be_done_is_not_done(harness: UpdateHarness):
    job = await store_job(harness)
    await harness.tap(f"job:run:{job}")
    await harness.tap(f"job:delete:{job}")
    assert await harness.handle_claimed() == []
    assert (await harness.load_items(kind="reminder"))[0].state == "done"


async def test_a_person_without_access_gets_no_reminder_and_loses_their_jobs(harness: UpdateHarness):
    job = await store_job(harness)
    await harness.tap(f"job:run:{job}")
    harness.access.forget(ANNA)
    assert await harness.handle_claimed() == []
    assert await load_jobs(harness) == []


@pytest.mark.parametrize("verb", ["remove", "block"])
async def test_a_removed_or_blocked_person_loses_their_jobs_at_once(harness: UpdateHarness, verb: str):
    await store_job(harness)
    bobs_job = await store_job(harness, BOB)
    await harness.send_text(f"/people {verb} {ANNA}", ADMIN)
    assert await load_jobs(harness) == []
    assert [row.id for row in await load_jobs(harness, BOB)] == [bobs_job]


async def test_a_reminder_that_comes_late_says_so(harness: UpdateHarness):
    job = await store_job(harness)
    async with harness.database.transaction() as tx:
        stored = await jobs.find(tx, job)
        assert stored is not None
        row = jobs.build_inbox_row(stored, late=7200.0, left_out=True)
        await jobs.run_now(tx, job, row, now=NOW)
    [sent] = await harness.handle_claimed()
    assert sent.text == (
        "⏰ tea\n"
        "\n"
        "(This was due Fri 20 Nov 2026, 16:00, 2 hours ago, while I was away. I missed earlier times too "
        "and won't catch up on them.)"
    )


async def test_a_reminder_that_waited_after_it_was_written_down_says_so_too(harness: UpdateHarness):
    job = await store_job(harness)
    await harness.tap(f"job:run:{job}")
    harness.now += 1200
    [sent] = await harness.handle_claimed()
    assert sent.text == "⏰ tea\n\n(This was due Fri 20 Nov 2026, 16:00, 20 minutes ago.)"


async def test_people_who_were_not_let_in_leave_half_of_all_reminders_to_others(database: Database):
    harness = UpdateHarness(
        database,
        "open",
        job_limits=JobLimits(max_per_person=3, max_total=4, default_zone="UTC"),
    )
    harness.now = NOW
    await harness.let_in(ANNA)
    for person in (BOB, BOB + 1):
        assert "I'll remind you" in (await send_command(harness, "/remind in 20 minutes tea", person))[0]
    assert await send_command(harness, "/remind in 20 minutes tea", BOB) == [
        "This bot is full: it holds at most 2 reminders and tasks."
    ]
    assert "I'll remind you" in (await send_command(harness, "/remind in 20 minutes tea", ANNA))[0]


@pytest.mark.parametrize("bounds", [JobLimits(max_per_person=0), JobLimits(max_total=0)])
async def test_jobs_can_be_switched_off_altogether(database: Database, bounds: JobLimits):
    harness = UpdateHarness(database, job_limits=bounds)
    harness.now = NOW
    await harness.let_in(ANNA)
    assert await send_command(harness, "/remind in 20 minutes tea") == [
        "Reminders and tasks are turned off here."
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("in 10 minutes tea", "⏰ I'll remind you: tea\nFri 20 Nov 2026, 16:10 (Europe/Berlin)"),
        ("in 3 hours tea", "⏰ I'll remind you: tea\nFri 20 Nov 2026, 19:00 (Europe/Berlin)"),
        ("every 1 hour tea", "⏰ I'll remind you: tea\nEvery hour. Next: Fri 20 Nov 2026, 19:00"),
    ],
)
async def test_what_was_written_while_the_gateway_was_down_counts_from_then(
    harness: UpdateHarness, line: str, expected: str
):
    sent = harness.build_message(text=f"/remind {line}")
    harness.now += 7200
    await harness.store_updates(sent, stale=True)
    assert await harness.handle_claimed() == []
    [answer] = await harness.handle_claimed()
    assert answer.text.startswith(expected)


async def test_tomorrow_counts_from_the_day_it_was_written_even_if_the_zone_is_set_later(database: Database):
    harness = UpdateHarness(database)
    harness.now = NOW + 8 * 3600 - 60
    await harness.let_in(ANNA)
    await send_command(harness, "/remind tomorrow at 9 tea")
    harness.now += 120
    assert (await send_command(harness, "/zone Berlin"))[
        1
    ] == "⏰ I'll remind you: tea\nSat 21 Nov 2026, 09:00 (Europe/Berlin)"


async def test_a_zone_is_set_by_a_city_and_shown_with_its_time(harness: UpdateHarness):
    [reply] = await send_command(harness, "/zone")
    assert reply.startswith("Your time zone is Europe/Berlin; it's 16:00 there.")
    assert await send_command(harness, "/zone tokyo") == ["Your time zone is Asia/Tokyo; it's 00:00 there."]
    async with harness.database.read_transaction() as tx:
        assert await people.find_time_zone(tx, ANNA) == "Asia/Tokyo"
    for city, answer in (
        ("Atlantis", "I don't know a city called “Atlantis”"),
        ("UTC+3", "An offset like +2 doesn't tell me when summer time starts"),
        ("EST", "An offset like +2 doesn't tell me when summer time starts"),
        ("München", "Your time zone is Europe/Berlin"),
        ("Wien", "Your time zone is Europe/Vienna"),
        ("CEST", "Your time zone is Europe/Berlin"),
    ):
        [reply] = await send_command(harness, f"/zone {city}")
        assert answer in reply


async def test_what_goes_by_the_calendar_moves_with_its_person_and_nothing_else_does(harness: UpdateHarness):
    await store_job(harness)
    await store_job(harness, rule=None)
    await store_job(harness, rule="DTSTART:20261101T080000\nRRULE:FREQ=HOURLY;INTERVAL=3")
    [reply] = await send_command(harness, "/zone Tokyo")
    assert reply.endswith("Your repeating reminder now uses this time zone.")
    moved, single, elapsed = await load_jobs(harness)
    tokyo = rrules.load_zone("Asia/Tokyo")
    assert (moved.zone, moved.next_due) == (
        "Asia/Tokyo",
        rrules.to_timestamp(datetime(2026, 11, 21, 8), tokyo),
    )
    assert (single.zone, single.next_due) == ("Asia/Tokyo", NOW + DAY)
    assert (elapsed.zone, elapsed.next_due) == ("Europe/Berlin", NOW + DAY)
    await store_job(harness)
    assert (await send_command(harness, "/zone Berlin"))[0].endswith(
        "Your 2 repeating reminders and tasks now use this time zone."
    )


async def test_what_comes_once_and_reads_differently_in_a_new_zone_is_named_and_moved_by_a_button(
    harness: UpdateHarness,
):
    await store_job(harness, rule=None, text="call Oma", zone="Etc/UTC")
    await store_job(harness, rule=None, text="tea", next_due=NOW + 1234)  # said as so many minutes from now
    [message] = await harness.send_text("/zone Tokyo")
    assert message.text == (
        "Your time zone is Asia/Tokyo; it's 00:00 there.\n"
        "This was set in another time zone and still comes at the same moment:\n"
        "⏰ call Oma · tomorrow 00:00"
    )
    [(label, data)] = message.buttons.items()
    assert label == "Move to 15:00"
    [card] = await tap_and_read(harness, data)
    assert card.text.endswith("Next: Sat 21 Nov 2026, 15:00 (Asia/Tokyo)")
    for _ in range(2):  # tapped twice, it is moved once
        job = next(job for job in await load_jobs(harness) if job.text == "call Oma")
        tokyo = rrules.load_zone("Asia/Tokyo")
        assert (job.zone, job.next_due) == (
            "Asia/Tokyo",
            rrules.to_timestamp(datetime(2026, 11, 21, 15), tokyo),
        )
        await harness.tap(data)


async def test_all_jobs_move_however_many_there_are(harness: UpdateHarness):
    for _ in range(101):
        await store_job(harness)
    await send_command(harness, "/zone Tokyo")
    async with harness.database.read_transaction() as tx:
        assert (await tx.execute(select(jobs_table.c.zone).distinct())).scalars().all() == ["Asia/Tokyo"]


async def test_whose_zone_is_unknown_is_asked_once_and_what_they_wanted_is_kept_then(database: Database):
    harness = UpdateHarness(database)
    harness.now = NOW
    await harness.let_in(ANNA)
    assert await send_command(harness, "/zone") == [
        "I don't know your time zone yet. Tell me a city: /zone Berlin"
    ]
    assert await send_command(harness, "/remind tomorrow at 9 tea") == [ZONE_QUESTION.replace("`", "")]
    assert (await harness.load_items(kind="reminder"))[0].error == ZONE_NEEDED
    [zone_reply, job_reply] = await send_command(harness, "/zone Berlin")
    assert zone_reply == "Your time zone is Europe/Berlin; it's 16:00 there."
    assert job_reply == "⏰ I'll remind you: tea\nSat 21 Nov 2026, 09:00 (Europe/Berlin)"
    await send_command(harness, "/zone Paris")
    assert len(await load_jobs(harness)) == 1


async def test_what_is_written_together_with_the_answer_to_the_question_is_answered_too(database: Database):
    harness = UpdateHarness(database)
    harness.now = NOW
    await harness.let_in(ANNA)
    await send_command(harness, "/remind tomorrow at 9 tea")
    await harness.store_updates(
        harness.build_message(text="I’m in Munich!"), harness.build_message(text="What is a tide?")
    )
    [reply] = await harness.handle_claimed()
    assert reply.text.startswith("Your time zone is Europe/Berlin")
    assert [request.texts for request in harness.turns.requests] == [("What is a tide?",)]
    assert [item.state for item in await harness.load_items(kind="update")] == ["done"] * 3


async def test_what_needs_no_zone_is_kept_without_one(database: Database):
    harness = UpdateHarness(database)
    harness.now = NOW
    await harness.let_in(ANNA)
    [reply] = await send_command(harness, "/remind in 20 minutes tea")
    assert reply == "⏰ I'll remind you: tea\nFri 20 Nov 2026, 15:20 (UTC)"
    assert len(await send_command(harness, "/remind every 2 hours tea")) == 1
    assert [job.next_due for job in await load_jobs(harness)] == [NOW + 1200, NOW + 7200]


async def test_an_admin_by_the_settings_gets_a_zone_without_getting_a_right(database: Database):
    harness = UpdateHarness(database, configured_admins=frozenset({ADMIN}))
    harness.now = NOW
    await harness.access.load(database)
    await send_command(harness, "/zone Berlin", ADMIN)
    assert len(await send_command(harness, "/remind tomorrow at 9 tea", ADMIN)) == 1
    assert harness.access.get_role(ADMIN) == "admin"
    later = UpdateHarness(database)
    await later.access.load(database)
    assert later.access.get_role(ADMIN) is None


async def test_a_question_for_the_zone_of_long_ago_is_not_gone_on_with(database: Database):
    harness = UpdateHarness(database)
    harness.now = NOW
    await harness.let_in(ANNA)
    await send_command(harness, "/remind tomorrow at 9 tea")
    harness.now = NOW + 2 * 3600
    assert len(await send_command(harness, "/zone Berlin")) == 1
    async with database.read_transaction() as tx:
        waits = select(inbox_table.c.id).where(inbox_table.c.state == "new")
        assert (await tx.execute(waits)).all() == []
        assert not await inbox.is_lane_busy(tx, Lane(ANNA))
