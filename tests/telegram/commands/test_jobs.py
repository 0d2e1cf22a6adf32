"""/remind, /jobs and /zone: what is parsed is confirmed and limited, and only its owner can change it."""

from datetime import datetime

import pytest
from sqlalchemy import select, update

from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, job_outcomes, jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import inbox as inbox_table
from bot.db.tables import jobs as jobs_table
from bot.domain import Lane
from bot.jobs.times import rrules
from bot.jobs.user_jobs import MAX_TEXT_CHARS, ZONE_NEEDED, JobLimits
from bot.telegram.commands.jobs import HOW_TO, NO_JOBS
from bot.telegram.runners.reminders import ZONE_QUESTION
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

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
        return await jobs.list_of_person(tx, person)


async def store_job(
    harness: UpdateHarness, person: int = ANNA, rule: str | None = DAILY, **more: object
) -> int:
    values = {"text": "tea", "person": person, "lane": Lane(person), **more}
    new = NewJob("reminder", NOW + DAY, "Europe/Berlin", rule, **values)  # type: ignore[arg-type]
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
    assert harness.job_changes == 1
    toast, _ = await harness.tap(sent.buttons["Undo"])
    assert toast == "Undone."
    assert await load_jobs(harness) == []
    assert (await harness.tap(sent.buttons["Undo"]))[0] == "This is gone already."


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
        ("", HOW_TO),
        ("yesterday at 9 call", "That was 31 hours ago."),
        ("every second ping", "That is too often: I do it every 5 minutes at most."),
        ("31 february at 9 call", "No calendar has the date “31 february”."),
        ("call Bob", "I do not know when that is."),
        ("tomorrow at 9", "Say what I shall remind you of, too"),
        (
            "tomorrow at 9 " + "x" * (MAX_TEXT_CHARS + 1),
            f"1 to {MAX_TEXT_CHARS} characters, this has {MAX_TEXT_CHARS + 1}",
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
        "You have 3 jobs, and no more fit. Delete one with /jobs."
    ]
    for number in range(2):
        await send_command(harness, f"/remind tomorrow at 9 tea {number}", BOB)
    [full] = await send_command(harness, "/remind tomorrow at 9 one more", BOB)
    assert full == "This bot keeps 5 jobs for all its people, and they are taken."
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
        "You have 10000 jobs, and no more fit. Delete one with /jobs."
    ]
    texts = await send_command(harness, "/jobs")
    assert len(texts) <= 6
    assert "… and 9900 more" in texts[-1]


async def test_the_list_shows_each_job_with_its_buttons(harness: UpdateHarness):
    assert await send_command(harness, "/jobs") == [NO_JOBS]
    first = await store_job(harness)
    second = await store_job(harness, rule=None)
    await store_job(harness, BOB)
    [listed] = await harness.send_text("/jobs")
    assert listed.text.splitlines() == [
        "Your jobs:",
        f"#{first} ⏰ tea · every day at 08:00 · Sat 21 Nov 2026, 16:00 (Europe/Berlin)",
        f"#{second} ⏰ tea · Sat 21 Nov 2026, 16:00 (Europe/Berlin)",
    ]
    assert list(listed.buttons) == [
        f"{verb} #{job}" for job in (first, second) for verb in ("Pause", "Run", "Delete")
    ]


async def test_a_job_is_paused_and_resumed_and_never_due_meanwhile(harness: UpdateHarness):
    job = await store_job(harness)
    assert (await harness.tap(f"job:pause:{job}"))[0] == f"#{job} is paused."
    assert (await harness.tap(f"job:pause:{job}"))[0] == "It is not active."
    [listed] = await harness.send_text("/jobs")
    assert listed.text.endswith("every day at 08:00 · paused")
    assert f"Resume #{job}" in listed.buttons
    async with harness.database.read_transaction() as tx:
        assert await jobs.list_due(tx, now=NOW + 9 * DAY, limit=9) == []
        assert await jobs.find_next_due(tx) is None
    harness.now = NOW + 3 * DAY
    assert (await harness.tap(f"job:resume:{job}"))[0] == f"#{job} is due Tue 24 Nov 2026, 08:00."
    assert (await harness.tap(f"job:resume:{job}"))[0] == "It is not paused."
    assert harness.job_changes == 1


async def test_what_happens_once_is_not_resumed_when_its_time_has_passed(harness: UpdateHarness):
    job = await store_job(harness, rule=None)
    await harness.tap(f"job:pause:{job}")
    harness.now = NOW + 2 * DAY
    assert (await harness.tap(f"job:resume:{job}"))[0] == "Its time has passed. Run it now, or delete it."
    harness.now = NOW
    assert (await harness.tap(f"job:resume:{job}"))[0] == f"#{job} is due Sat 21 Nov 2026, 16:00."


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
    assert (await harness.tap(f"job:run:{job}"))[0] == "I do it now."
    harness.now += 1
    toast, [sent] = await harness.tap(f"job:run:{job}")
    assert (toast, sent.text) == ("It is under way already.", "⏰ tea")
    [row] = await load_jobs(harness)
    assert (row.next_due, row.last_due) == (NOW + DAY, None)


async def test_a_job_is_deleted(harness: UpdateHarness):
    job = await store_job(harness)
    second = await store_job(harness)
    assert (await harness.tap(f"job:delete:{job}"))[0] == f"#{job} is deleted."
    assert [row.id for row in await load_jobs(harness)] == [second]


async def test_what_is_done_cannot_be_undone(harness: UpdateHarness):
    job = await store_job(harness, rule=None)
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).values(state="done", next_due=None))
    assert (await harness.tap(f"job:undo:{job}"))[0] == "It is done already."


@pytest.mark.parametrize(("rule", "zone"), [("nonsense", "Europe/Berlin"), (DAILY, "Mars/Phobos")])
async def test_a_job_that_cannot_be_read_is_listed_and_deleted_and_hinders_nothing(
    harness: UpdateHarness, rule: str, zone: str
):
    job = await store_job(harness, rule=rule)
    async with harness.database.transaction() as tx:
        await tx.execute(
            update(jobs_table).values(state="paused", why_paused="its rule cannot be read", zone=zone)
        )
    [listed] = await send_command(harness, "/jobs")
    assert "paused, for its rule cannot be read" in listed
    toast, *_ = await harness.tap(f"job:resume:{job}")
    assert toast is not None
    assert toast.startswith("I cannot read when that was to be.")
    assert len(await send_command(harness, "/zone Tokyo")) == 1
    assert (await harness.tap(f"job:delete:{job}"))[0] == f"#{job} is deleted."


@pytest.mark.parametrize("verb", ["undo", "pause", "resume", "run", "delete"])
async def test_nobody_touches_the_job_of_another(harness: UpdateHarness, verb: str):
    job = await store_job(harness)
    assert (await harness.tap(f"job:{verb}:{job}", BOB))[0] == "This is gone already."
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
        "⏰ tea\n\n(This was due Fri 20 Nov 2026, 16:00, 2 hours ago, while I was away. "
        "Earlier times were missed, too, and are left out.)"
    )


async def test_a_reminder_that_waited_after_it_was_written_down_says_so_too(harness: UpdateHarness):
    job = await store_job(harness)
    await harness.tap(f"job:run:{job}")
    harness.now += 1200
    [sent] = await harness.handle_claimed()
    assert sent.text == "⏰ tea\n\n(This was due Fri 20 Nov 2026, 16:00, 20 minutes ago.)"


@pytest.mark.parametrize("bounds", [JobLimits(max_per_person=0), JobLimits(max_total=0)])
async def test_jobs_can_be_switched_off_altogether(database: Database, bounds: JobLimits):
    harness = UpdateHarness(database, job_limits=bounds)
    harness.now = NOW
    await harness.let_in(ANNA)
    assert await send_command(harness, "/remind in 20 minutes tea") == [
        "This bot keeps no reminders and tasks."
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
    assert reply.startswith("Your time zone is Europe/Berlin, where it is 16:00.")
    assert await send_command(harness, "/zone tokyo") == ["Your time zone is Asia/Tokyo, where it is 00:00."]
    async with harness.database.read_transaction() as tx:
        assert await people.find_time_zone(tx, ANNA) == "Asia/Tokyo"
    for city, answer in (
        ("Atlantis", "No time zone is called 'Atlantis'"),
        ("UTC+3", "An offset knows no summer time"),
        ("EST", "An offset knows no summer time"),
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
    assert reply.endswith("Your job goes by it.")
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
        "What comes again goes by it from now on."
    )


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
        "I do not know yours. Send /zone and a city to set it, such as: /zone Berlin."
    ]
    assert await send_command(harness, "/remind tomorrow at 9 tea") == [ZONE_QUESTION]
    assert (await harness.load_items(kind="reminder"))[0].error == ZONE_NEEDED
    [zone_reply, job_reply] = await send_command(harness, "/zone Berlin")
    assert zone_reply == "Your time zone is Europe/Berlin, where it is 16:00."
    assert job_reply == "⏰ I'll remind you: tea\nSat 21 Nov 2026, 09:00 (Europe/Berlin)"
    await send_command(harness, "/zone Paris")
    assert len(await load_jobs(harness)) == 1


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
