"""Killed around the commits between due and done, of a reminder and of a task.

Each due time is done once, or its doubt is said; and its outcome is recorded.
"""

import sqlite3
import time
from contextlib import closing
from functools import partial

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE

YEARLY = "DTSTART:20260101T000000\nRRULE:FREQ=YEARLY"  # it must not come due again meanwhile


def add_due_job(environment: KillEnvironment, chat: int, kind: str, text: str) -> tuple[int, float]:
    """Store a job that was due a moment ago; returns its id and that moment."""
    now = time.time()
    file = environment.folder / "gateway.db"
    with closing(sqlite3.connect(file, timeout=PATIENCE)) as connection, connection:
        row = (kind, chat, str(chat), text, YEARLY, "UTC", now, now)
        columns = "kind, person, lane, text, rule, zone, next_due, made_at"
        cursor = connection.execute(f"insert into jobs ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        assert cursor.lastrowid is not None
        return cursor.lastrowid, now


async def greet(environment: KillEnvironment, chat: int) -> None:
    """Let a user write to the bot and be answered: a bot may not write first."""
    environment.api.person(chat).send("@@say:Hello.@@")
    await environment.until(lambda: "Hello." in environment.texts(chat))
    await environment.wait_until_idle()


async def wait_until_recorded(environment: KillEnvironment, job: int) -> None:
    """Wait until the due time is done and its outcome is recorded."""
    await environment.wait_for_row(
        f"select 1 from jobs where id = {job} and last_done is not null and failures = 0"
    )
    await environment.wait_until_idle()


@pytest.mark.parametrize("kind", ["reminder", "task"])
async def test_around_the_commits_between_due_and_done(surround: OpenEnvironment, kind: str):
    """Read transactions count, too."""
    environment = await surround()
    kills = 0
    for chat, moment in enumerate(("before 1", "after 2", "before 4", "after 5", "after 6"), start=101):
        kills += await is_killed_on_the_way(environment, kind, chat, moment)
    assert kills >= 3
    environment.assert_all_accounted()


async def is_killed_on_the_way(environment: KillEnvironment, kind: str, chat: int, moment: str) -> bool:
    """Whether the gateway killed itself between due and done; the job is done once either way."""
    expected_text = "⏰ tea" if kind == "reminder" else "There you are."
    job_text = "tea" if kind == "reminder" else f"@@say:{expected_text}@@"
    await greet(environment, chat)
    await environment.gateway.arm(moment)
    job, due_at = add_due_job(environment, chat, kind, job_text)
    has_died = await environment.revive(partial(wait_until_recorded, environment, job))
    matching_texts = [text for text in environment.texts(chat) if expected_text in text]
    assert len(matching_texts) == 1 or (not matching_texts and environment.doubtful_messages(chat))
    assert environment.load_rows(f"select due_at, state from inbox where job = {job}") == [(due_at, "done")]
    assert environment.load_rows(f"select next_due > {due_at} from jobs where id = {job}") == [(1,)]
    return has_died


async def test_around_the_commits_of_a_snooze_that_is_tapped_twice(surround: OpenEnvironment):
    """It is stored once, and its message says when it comes again."""
    environment = await surround(time_zone="UTC")
    kills = 0
    for chat, moment in enumerate(("before 1", "after 1", "after 2", "before 4"), start=101):
        kills += await is_killed_at_a_snooze(environment, chat, moment)
    assert kills >= 2
    environment.assert_all_accounted()


async def is_killed_at_a_snooze(environment: KillEnvironment, chat: int, moment: str) -> bool:
    await greet(environment, chat)
    job, _ = add_due_job(environment, chat, "reminder", "tea")
    await wait_until_recorded(environment, job)
    reminder = environment.messages(chat)[-1]
    await environment.gateway.arm(moment)
    for label in ("10 min", "1 h"):
        environment.api.person(chat).tap(reminder, label)
    has_died = await environment.revive(partial(wait_until_said, environment, chat, "Again "))
    assert not environment.messages(chat)[-1].buttons
    snoozes = environment.load_rows(
        f"select text, state, rule from jobs where person = {chat} and name is not null"
    )
    assert snoozes == [("tea", "active", None)]
    return has_died


async def wait_until_said(environment: KillEnvironment, chat: int, text: str) -> None:
    """Wait until the newest message says this, and all is done."""
    await environment.until(lambda: text in environment.texts(chat)[-1])
    await environment.wait_until_idle()


async def test_a_reminder_that_was_asked_for_and_came_due_while_the_gateway_was_down_is_said_at_once(
    surround: OpenEnvironment,
):
    environment = await surround(start=False, time_zone="UTC")
    environment.ann.send("/remind in 10 minutes tea", date=time.time() - 1500)
    await environment.gateway.start()
    await environment.until(lambda: len(environment.texts()) == 2)
    confirmation, reminder = environment.texts()
    assert confirmation.startswith("⏰ I'll remind you: tea")
    assert reminder.startswith("⏰ tea\n\n(This was due ")
    await environment.wait_until_idle()
    environment.assert_all_accounted()


async def test_around_commits_of_a_change_in_words(
    surround: OpenEnvironment, either_database: dict[str, str]
):
    """It is asked for and changed once, and both are said."""
    environment = await surround(time_zone="UTC", **either_database)
    kills = 0
    # On a server each replica commits that it is alive, too.
    moments = ("after 2", "after 5") if either_database else ("after 1", "after 3", "after 5", "after 7")
    for chat, moment in enumerate(moments, start=101):
        kills += await is_killed_at_a_change(environment, chat, moment)
    assert kills >= 1
    environment.assert_all_accounted()


async def is_killed_at_a_change(environment: KillEnvironment, chat: int, moment: str) -> bool:
    person = environment.api.person(chat)
    await greet(environment, chat)
    person.send("/remind in 2 days tea")
    await environment.until(lambda: "tea" in environment.texts(chat)[-1])
    person.tap(environment.messages(chat)[-1], "Change")
    await environment.until(lambda: "New text" in str(environment.messages(chat)[-1].buttons))
    await environment.wait_until_idle()
    await environment.gateway.arm(moment)
    person.tap(environment.messages(chat)[-1], "New text")
    has_died = await environment.revive(partial(give_new_text, environment, chat))
    for text in ("Reply with", "⏰ cake"):
        times = "".join(environment.texts(chat)).count(text)
        assert times == 1 or (times == 0 and environment.doubtful_messages(chat))
    return has_died


async def give_new_text(environment: KillEnvironment, chat: int) -> None:
    """Write the new text once it is asked for, and wait until it is taken."""
    person = environment.api.person(chat)
    await environment.wait_for_row(
        f"select 1 from jobs where person = {chat} and (question > '' or text = 'cake')"
    )
    await environment.wait_until_idle()
    if not any(message.text == "cake" for message in person.chat.messages):
        person.send("cake")
    await environment.wait_for_row(f"select 1 from jobs where person = {chat} and text = 'cake'")
    await environment.wait_until_idle()
