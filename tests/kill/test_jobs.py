"""Killed around every commit between due and done, of a reminder and of a task: each due time is done once,
or it is said that nobody knows; and what came of it is noted.
"""

import sqlite3
import time
from contextlib import closing

import pytest

from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings
from tests.kill.gateway import Died

HOURLY = "DTSTART:20260101T000000\nRRULE:FREQ=HOURLY"


def due(house: Surroundings, chat: int, kind: str, text: str) -> tuple[int, float]:
    """A job that was due a moment ago; its id and that moment."""
    now = time.time()
    with closing(sqlite3.connect(house.folder / "house.db", timeout=30)) as connection, connection:
        row = (kind, chat, str(chat), text, HOURLY, "UTC", now, now)
        columns = "kind, person, lane, text, rule, zone, next_due, made_at"
        made = connection.execute(f"insert into jobs ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        assert made.lastrowid is not None
        return made.lastrowid, now


async def known(house: Surroundings, chat: int) -> None:
    """Somebody has written to the bot before, and been answered."""
    house.api.person(chat).send("@@say:Hello.@@")
    await house.until(lambda: "Hello." in house.texts(chat))
    await house.at_rest()


async def noted(house: Surroundings, job: int) -> None:
    """Wait until the due time is done and what came of it is noted."""
    await house.stored(f"select 1 from jobs where id = {job} and last_done is not null and failures = 0")
    await house.at_rest()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["reminder", "task"])
async def test_around_every_commit_between_due_and_done(surround: Surround, kind: str, when: str):
    """Before each odd commit and after each even one, until it lives: reading transactions count, too."""
    house = await surround()
    commit = 1 if when == "before" else 2
    while await dies(house, kind, when, commit):
        commit += 2
    assert commit > 7
    house.accounted()


async def dies(house: Surroundings, kind: str, when: str, commit: int) -> bool:
    """Whether the gateway killed itself between what is due and what is done and noted, which it is once
    either way.
    """
    chat, wanted = 100 + commit, "⏰ tea" if kind == "reminder" else "There you are."
    await known(house, chat)
    await house.gateway.arm(f"{when} {commit}")
    job, moment = due(house, chat, kind, "tea" if kind == "reminder" else f"@@say:{wanted}@@")
    has_died = False
    try:
        await house.gateway.while_alive(noted(house, job))
    except Died:
        has_died = True
        await house.gateway.ended()
        await house.gateway.start()
        await noted(house, job)
    seen = [text for text in house.texts(chat) if wanted in text]
    assert len(seen) == 1 or (not seen and house.unsure(chat))
    assert house.rows(f"select due_at, state from inbox where job = {job}") == [(moment, "done")]
    assert house.rows(f"select next_due > {moment} from jobs where id = {job}") == [(1,)]
    return has_died
