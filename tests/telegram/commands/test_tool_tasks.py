"""What /tools leaves to be done: it outlives the process, answers the admin who asked, and never runs twice."""

import json
from typing import Any, cast

import pytest
from telegram import Bot

from bot.db import retry as patience
from bot.db.engine import Database
from bot.db.queues import inbox, outbox
from bot.db.tools import audit
from bot.db.tools.audit import Change
from bot.domain import InboxItem
from bot.errors import StoreUnavailable
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.commands.tool_tasks import Errands
from bot.telegram.commands.try_tool_tasks import Trials
from bot.tool_registry import try_tool as trying
from bot.tool_registry.loader import Where
from bot.tool_registry.registry import Catalogue
from tests.support.update_harness import ADMIN, Front
from tools.base import tool

ran: list[str] = []


@tool
async def order(what: str) -> str:
    """Order something.

    Args:
        what: What.
    """
    ran.append(what)
    return f"ordered {what}\x1b[31m"


@tool(repeatable=True)
async def look() -> str:
    """Look."""
    ran.append("look")
    return "seen"


class Desk:
    """The front and the runner of its errands."""

    def __init__(self, database: Database) -> None:
        self.front = Front(database)
        catalogue = Catalogue(database, [order, look], lambda person: person == ADMIN)
        gestures = Gestures(cast(Bot, self.front.bot), members=(), admins=(), patience=0.05)
        self.woken: list[Any] = []
        trials = Trials(database, catalogue, Where(), gestures)
        self.errands = Errands(database, catalogue, trials.by_name(), self.woken.append)
        ran.clear()

    async def ask(self, text: str, **more: Any) -> str:
        """What an admin writes, and the first line of the answer to it."""
        (sent,) = await self.front.write(text, person=ADMIN, **more)
        return sent.text

    async def run(self, attempt: int = 1) -> list[str]:
        """Do what waits, as the worker would; the texts that came of it."""
        waiting = await self.front.items(kind="house", state="new") + await self.front.items(
            kind="house", state="running"
        )
        for row in waiting:
            item = InboxItem(
                row.id, "house", "other", None, row.sender, json.loads(row.body), attempt, False, 0.0
            )
            await self.errands((item,))
        return [one.text for one in await self.front.sent()]

    async def changes(self) -> list[Change]:
        async with self.front.database.reading() as tx:
            return await audit.changes(tx)


@pytest.fixture
async def desk(database: Database) -> Desk:
    desk = Desk(database)
    await desk.front.let_in(ADMIN, "admin")
    return desk


async def test_a_tool_is_run_once_and_its_call_result_and_time_are_shown(desk: Desk):
    assert await desk.ask('/tools try order {"what": "tea"}') == "I run it once."
    assert ran == []
    (text,) = await desk.run()
    lines = text.splitlines()
    assert lines[0] == 'order {"what": "tea"}'
    assert lines[1].startswith("ok after ")
    assert lines[2] == "ordered tea[31m"
    assert await desk.run() == []
    assert ran == ["tea"]
    (change,) = await desk.changes()
    assert (change.who, change.via, change.what, change.subject) == (ADMIN, "telegram", "tried", "tool order")


async def test_after_a_crash_only_what_is_repeatable_runs_again(desk: Desk):
    await desk.ask('/tools try order {"what": "tea"}')
    (text,) = await desk.run(attempt=2)
    assert text.startswith("The gateway stopped while order ran")
    await desk.ask("/tools try look")
    await desk.run(attempt=2)
    assert ran == ["look"]


async def test_that_what_runs_once_is_taken_is_on_the_disk_before_it_runs(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    transaction, synced = Database.transaction, list[bool]()

    def watched(database: Database, *, durable: bool = True) -> Any:
        synced.append(durable)
        return transaction(database, durable=durable)

    await desk.ask('/tools try order {"what": "tea"}')
    before = [row.attempt for row in await desk.front.items(kind="house", state="new")]
    monkeypatch.setattr(Database, "transaction", watched)
    run = trying.run

    async def tried(database: Database, trial: trying.Trial) -> trying.Tried:
        found = [row.attempt for row in await desk.front.items(kind="house", state="new")]
        assert (synced, found) == (
            [True],
            [one + 1 for one in before],
        )  # a commit that writes nothing syncs nothing
        return await run(database, trial)

    monkeypatch.setattr(trying, "run", tried)
    assert (await desk.run())[0].startswith("order")
    assert ran == ["tea"]


async def test_what_ran_does_not_run_again_while_the_database_is_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(patience, "AGAIN_SECONDS", 0.0)
    real, failures = outbox.add, [StoreUnavailable("full"), StoreUnavailable("full")]

    async def add(*given: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(*given, **named)

    await desk.ask('/tools try order {"what": "tea"}')
    monkeypatch.setattr(outbox, "add", add)
    assert len(await desk.run()) == 1
    assert (ran, failures) == (["tea"], [])
    assert len(await desk.changes()) == 1


async def test_what_cannot_be_tried_is_said(desk: Desk):
    await desk.ask("/tools try nothing")
    assert await desk.run() == ["nothing cannot be used now; /tools shows how it stands."]
    await desk.ask("/tools try order {oops")
    (text,) = await desk.run()
    assert text.startswith("Arguments are JSON")


async def test_all_sources_are_looked_at_anew(desk: Desk):
    await desk.ask("/tools reload")
    assert await desk.run() == ["All sources are as they should be.\n2 tools can be used now."]


async def test_a_message_with_a_secret_is_deleted(desk: Desk):
    await desk.ask("/tools secret set weather hunter2", message_id=77)
    assert await desk.run() == []
    assert desk.front.bot.of("delete_message")[0]["given"] == (ADMIN, 77)
    assert await desk.front.items(kind="house", state="done")


async def test_a_message_that_cannot_be_deleted_is_said(desk: Desk):
    await desk.ask("/tools secret set weather hunter2", message_id=77)
    desk.front.bot.is_away = True
    (text,) = await desk.run()
    assert text.startswith("I could not delete your message")


async def test_an_errand_is_no_lanes_and_asks_for_the_worker(desk: Desk):
    await desk.ask("/tools reload")
    (row,) = await desk.front.items(kind="house")
    assert (row.lane, row.sender) == (None, ADMIN)
    assert desk.front.worker_wakes == 1
    async with desk.front.database.transaction() as tx:
        claimed = await inbox.claim(tx, now=desk.front.now)
    assert [group[0].id for group in claimed.groups] == [row.id]
