"""Killed around every commit between due and done, of a reminder and of a task: each due time is done once,
or it is said that nobody knows; and what came of it is noted.
"""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied

HOURLY = "DTSTART:20260101T000000\nRRULE:FREQ=HOURLY"


def add_due_job(environment: KillEnvironment, chat: int, kind: str, text: str) -> tuple[int, float]:
    """A job that was due a moment ago; its id and that moment."""
    now = time.time()
    with closing(sqlite3.connect(environment.folder / "house.db", timeout=30)) as connection, connection:
        row = (kind, chat, str(chat), text, HOURLY, "UTC", now, now)
        columns = "kind, person, lane, text, rule, zone, next_due, made_at"
        made = connection.execute(f"insert into jobs ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        assert made.lastrowid is not None
        return made.lastrowid, now


async def greet(environment: KillEnvironment, chat: int) -> None:
    """Somebody has written to the bot before, and been answered."""
    environment.api.person(chat).send("@@say:Hello.@@")
    await environment.until(lambda: "Hello." in environment.texts(chat))
    await environment.wait_until_idle()


async def wait_until_noted(environment: KillEnvironment, job: int) -> None:
    """Wait until the due time is done and what came of it is noted."""
    await environment.wait_for_row(
        f"select 1 from jobs where id = {job} and last_done is not null and failures = 0"
    )
    await environment.wait_until_idle()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["reminder", "task"])
async def test_around_every_commit_between_due_and_done(surround: OpenEnvironment, kind: str, when: str):
    """Before each odd commit and after each even one, until it lives: reading transactions count, too."""
    house = await surround()
    commit = 1 if when == "before" else 2
    while await is_killed_on_the_way(house, kind, when, commit):
        commit += 2
    assert commit > 7
    house.assert_all_accounted()


async def is_killed_on_the_way(environment: KillEnvironment, kind: str, when: str, commit: int) -> bool:
    """Whether the gateway killed itself between what is due and what is done and noted, which it is once
    either way.
    """
    chat, wanted = 100 + commit, "⏰ tea" if kind == "reminder" else "There you are."
    await greet(environment, chat)
    await environment.gateway.arm(f"{when} {commit}")
    job, moment = add_due_job(environment, chat, kind, "tea" if kind == "reminder" else f"@@say:{wanted}@@")
    has_died = False
    try:
        await environment.gateway.while_alive(wait_until_noted(environment, job))
    except GatewayDied:
        has_died = True
        await environment.gateway.wait_for_exit()
        await environment.gateway.start()
        await wait_until_noted(environment, job)
    seen = [text for text in environment.texts(chat) if wanted in text]
    assert len(seen) == 1 or (not seen and environment.doubtful_messages(chat))
    assert environment.load_rows(f"select due_at, state from inbox where job = {job}") == [(moment, "done")]
    assert environment.load_rows(f"select next_due > {moment} from jobs where id = {job}") == [(1,)]
    return has_died
