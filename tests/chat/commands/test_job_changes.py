"""A reminder or task gets a new time or text: by the next message or a reply; lateness is said."""

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import update

from bot.chat.commands.job_cards import ANSWER_SECONDS
from bot.db.engine import Database
from bot.db.people import groups as group_rows
from bot.db.people.groups import Group
from bot.db.queues import inbox, jobs
from bot.db.queues.jobs import Job, NewJob
from bot.db.tables import jobs as jobs_table
from bot.domain import Lane
from bot.jobs.times import rrules
from bot.jobs.user_jobs import JobLimits
from tests.support.groups import BOT_ID, build_group_chat
from tests.support.update_harness import ADMIN, ANNA, BOB, SentMessage, UpdateHarness, build_user

NOW = rrules.to_timestamp(datetime(2026, 11, 20, 16, 0), rrules.load_zone("Europe/Berlin"))  # a Friday
DAY = 86_400.0
DAILY = "DTSTART:20261101T080000\nRRULE:FREQ=DAILY;BYHOUR=8;BYMINUTE=0;BYSECOND=0"
CHAT = -100
FAMILY = build_group_chat(CHAT, "Family")
CLOSED = "This question is no longer open, so I didn't use your reply."


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database, job_limits=JobLimits(default_zone="Europe/Berlin"))
    harness.now = NOW
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    group = Group(CHAT, "Family", "in", harness.now, let_in_by=ADMIN, hears_all=False)
    async with database.transaction() as tx:
        await group_rows.put(tx, group)
    harness.groups.remember(group)
    return harness


async def store_job(harness: UpdateHarness, person: int = ANNA, **more: Any) -> int:
    values = {"rule": None, "text": "tea", "lane": Lane(person), "next_due": NOW + DAY} | more
    async with harness.database.transaction() as tx:
        return await jobs.add(tx, NewJob("reminder", zone="Europe/Berlin", person=person, **values), now=NOW)


async def load_job(harness: UpdateHarness, number: int) -> Job | None:
    async with harness.database.read_transaction() as tx:
        return await jobs.find(tx, number)


async def set_values(harness: UpdateHarness, **values: object) -> None:
    async with harness.database.transaction() as tx:
        await tx.execute(update(jobs_table).values(values))


async def ask(harness: UpdateHarness, field: str, job: int) -> SentMessage:
    """Tap [New time] or [New text]; return the question."""
    _, [question] = await harness.tap(f"job:{field}:{job}")
    harness.now += 5
    return question


async def say(harness: UpdateHarness, text: str, person: int = ANNA, **more: Any) -> str:
    """Write a text; return the first reply."""
    return (await harness.send_text(text, person, **more))[0].text


def reply_to(question: SentMessage) -> dict[str, Any]:
    """What makes a message a reply to this question, as Telegram tells it."""
    [(label, data)] = question.buttons.items()
    keyboard = [[{"text": label, "callback_data": data}]]
    replied = {"message_id": 1, "date": 1, "chat": build_group_chat(CHAT, "Family"), "text": question.text}
    bot = {"id": BOT_ID, "is_bot": True, "first_name": "Bot"}
    return {"reply_to_message": replied | {"from": bot, "reply_markup": {"inline_keyboard": keyboard}}}


async def write_in_group(harness: UpdateHarness, text: str, person: int, **more: Any) -> list[SentMessage]:
    message = harness.build_message(person, text=text, chat=FAMILY, **more)
    await harness.store_updates(message)
    return await harness.handle_claimed()


async def tap_in_group(
    harness: UpdateHarness, data: str, person: int
) -> tuple[str | None, list[SentMessage]]:
    message = harness.build_message(chat=FAMILY, text="…")["message"]
    query = {"id": "1", "from": build_user(person), "chat_instance": "1", "data": data, "message": message}
    await harness.store_updates({"callback_query": query})
    sent = await harness.handle_claimed()
    return harness.bot.calls_of("answer_callback_query")[-1]["text"], sent


async def test_the_next_message_is_the_new_time_if_every_word_belongs_to_it(harness: UpdateHarness):
    await harness.send_text("/remind tomorrow at nine call Bob")
    [confirmation] = await harness.handle_claimed()
    assert list(confirmation.buttons) == ["Undo", "Change"]
    await harness.tap(confirmation.buttons["Change"])
    keyboard = harness.bot.calls_of("edit_message_text")[-1]["reply_markup"].inline_keyboard
    assert [button.text for row in keyboard for button in row] == ["New time", "New text", "Leave as is"]
    [job] = [number for number in range(1, 9) if await load_job(harness, number)]
    question = await ask(harness, "time", job)
    assert question.text.startswith("⏰ call Bob\n\nReply with the new time, such as tomorrow at 10")
    for words in ("monday at 10 perhaps", "call Bob", "yesterday", "9" * 400):
        assert (await say(harness, words)).startswith("⏰ call Bob\n\n")
        harness.now += 1
    assert (await load_job(harness, job)).next_due == NOW + 17 * 3600  # type: ignore[union-attr]
    assert await say(harness, "monday at 10") == (
        "Changed.\n⏰ call Bob\n\nNext: Mon 23 Nov 2026, 10:00 (Europe/Berlin)"
    )
    assert (await harness.send_text("monday at 11"), len(harness.turns.requests)) == ([], 1)


async def test_a_time_may_come_again_and_again_and_resumes_what_was_paused(harness: UpdateHarness):
    job = await store_job(harness, rule=DAILY)
    await harness.tap(f"job:pause:{job}")
    await ask(harness, "time", job)
    assert await say(harness, "jeden Montag um 8") == (
        "Changed.\n⏰ tea\n\nOn Mondays at 08:00.\nNext: Mon 23 Nov 2026, 08:00 (Europe/Berlin)"
    )
    await ask(harness, "time", job)
    assert "Next: Sat 21 Nov 2026, 10:00" in await say(harness, "tomorrow at 10")
    stored = await load_job(harness, job)
    assert stored is not None
    assert (stored.state, stored.rule, stored.question) == ("active", None, None)


async def test_a_new_text_is_taken_as_it_is_written(harness: UpdateHarness):
    job = await store_job(harness)
    question = await ask(harness, "text", job)
    assert (await say(harness, "x" * 1001)).endswith(
        "A reminder can have 1000 characters; this one has 1001."
    )
    harness.now += 1
    assert await say(harness, "tomorrow at 9: `cake`") == (
        "Changed.\n⏰ tomorrow at 9: `cake`\n\nNext: Sat 21 Nov 2026, 16:00 (Europe/Berlin)"
    )
    assert await say(harness, "more", **reply_to(question)) == CLOSED
    question = await ask(harness, "time", job)
    await ask(harness, "text", job)
    assert (
        await say(harness, "tomorrow", **reply_to(question)) == CLOSED
    )  # what is asked for is another thing


async def test_what_is_no_answer_is_answered_as_any_message(harness: UpdateHarness):
    job = await store_job(harness)
    question = await ask(harness, "text", job)
    assert (await harness.tap(question.buttons["Leave as is"]))[1] == []
    assert await harness.send_text("hello") == []
    await ask(harness, "text", job)
    assert (
        await harness.send_text("hello", reply_to_message={"message_id": 3, "date": 1, "chat": FAMILY}) == []
    )
    assert await harness.send_text("hello", BOB) == []
    assert await harness.send_text("/ask hello") == []  # it ends the wait
    assert await harness.send_text("hello") == []
    question = await ask(harness, "text", job)
    assert await harness.send_text("/ask hello", **reply_to(question)) == []  # so does this
    assert await harness.send_text("hello") == []
    question = await ask(harness, "text", job)
    harness.now += ANSWER_SECONDS
    assert await harness.send_text("hello") == []
    assert len(harness.turns.requests) == 8
    assert (await say(harness, "cake", **reply_to(question))).startswith("Changed.\n⏰ cake")


async def test_five_taps_ask_once(harness: UpdateHarness):
    job = await store_job(harness)
    answers = [await harness.tap(f"job:time:{job}") for _ in range(5)]
    assert [len(sent) for _, sent in answers] == [1, 0, 0, 0, 0]
    assert {toast for toast, _ in answers[1:]} == {"I've already asked you."}


@pytest.mark.parametrize(
    ("values", "reply"),
    [
        ({"state": "done"}, "This is already done."),
        ({"next_due": None}, "This is already done."),
        ({"state": "deleted"}, "This no longer exists."),
        ({"question": None}, CLOSED),
    ],
    ids=["done", "under way", "deleted", "changed"],
)
async def test_an_answer_that_comes_too_late_is_told_why(
    harness: UpdateHarness, values: dict[str, object], reply: str
):
    job = await store_job(harness)
    question = await ask(harness, "time", job)
    await set_values(harness, **values)
    assert await say(harness, "tomorrow at 10", **reply_to(question)) == reply
    if reply != CLOSED:
        for field in ("change", "time", "text"):
            assert (await harness.tap(f"job:{field}:{job}"))[0] == reply


async def test_after_forget_a_reply_is_told_that_nothing_is_asked_any_more(harness: UpdateHarness):
    question = await ask(harness, "time", await store_job(harness))
    await harness.tap("forget:yes")
    [order] = await harness.load_items(kind="system")
    async with harness.database.transaction() as tx:
        await inbox.mark_done(tx, [order.id], now=harness.now)
    assert await say(harness, "tomorrow at 10", **reply_to(question)) == CLOSED


async def test_a_group_sees_its_reminders_and_who_set_one_changes_it(harness: UpdateHarness):
    await store_job(harness, text="the doctor")
    await store_job(harness, BOB, text="wine", lane=Lane(CHAT, 7))
    job = await store_job(harness, text="pizza", lane=Lane(CHAT))
    command = {"type": "bot_command", "offset": 0, "length": 5}
    [listed] = await write_in_group(harness, "/jobs", BOB, entities=[command])
    assert listed.text.splitlines() == [
        "Reminders and tasks here (Europe/Berlin):",
        "1. ⏰ wine · tomorrow 16:00 · Bob",
        "2. ⏰ pizza · tomorrow 16:00 · Anna",
    ]
    assert (await tap_in_group(harness, listed.buttons["2"], BOB))[0] is None
    refusal = "Only the person who set this can change it."
    for verb in ("pause", "run", "delete", "change", "time", "text", "leave_time"):
        assert await tap_in_group(harness, f"job:{verb}:{job}", BOB) == (refusal, [])
    _, [question] = await tap_in_group(harness, f"job:text:{job}", ANNA)
    harness.now += 1
    [answer] = await write_in_group(harness, "beer", BOB, **reply_to(question))
    assert answer.text == refusal
    [answer] = await write_in_group(harness, "beer", ANNA, **reply_to(question))
    assert answer.text.startswith("Changed.\n⏰ beer")
    private = await store_job(harness, text="the doctor")
    assert (await tap_in_group(harness, f"job:open:{private}", ANNA))[0] == "This no longer exists."
