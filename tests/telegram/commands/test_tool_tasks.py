"""What /tools leaves to be done: it outlives the process, answers the admin who asked, and never runs twice."""

import json
from typing import Any, cast

import pytest
from telegram import Bot

from bot.db import retry as patience
from bot.db.engine import Database
from bot.db.queues import inbox, outbox
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from bot.domain import InboxItem
from bot.errors import StoreUnavailable
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.commands.tool_tasks import ToolTaskRunner
from bot.telegram.commands.try_tool_tasks import TryToolTasks
from bot.tool_registry import try_tool as trying
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.registry import ToolRegistry
from tests.support.update_harness import ADMIN, UpdateHarness
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


class ToolTaskHarness:
    """The front and the runner of its errands."""

    def __init__(self, database: Database) -> None:
        self.front = UpdateHarness(database)
        catalogue = ToolRegistry(database, [order, look], lambda person: person == ADMIN)
        gestures = BestEffortCalls(
            cast(Bot, self.front.bot), member_commands=(), admin_commands=(), timeout_seconds=0.05
        )
        self.woken: list[Any] = []
        trials = TryToolTasks(database, catalogue, ToolSettings(), gestures)
        self.runner = ToolTaskRunner(database, catalogue, trials.get_handlers(), self.woken.append)
        ran.clear()

    async def send_command(self, text: str, **more: Any) -> str:
        """What an admin writes, and the first line of the answer to it."""
        (sent,) = await self.front.send_text(text, person=ADMIN, **more)
        return sent.text

    async def run_waiting(self, attempt: int = 1) -> list[str]:
        """Do what waits, as the worker would; the texts that came of it."""
        waiting = await self.front.load_items(kind="house", state="new") + await self.front.load_items(
            kind="house", state="running"
        )
        for row in waiting:
            item = InboxItem(
                row.id, "house", "other", None, row.sender, json.loads(row.body), attempt, False, 0.0
            )
            await self.runner((item,))
        return [one.text for one in await self.front.read_sent()]

    async def load_changes(self) -> list[AuditEntry]:
        async with self.front.database.read_transaction() as tx:
            return await audit.list_entries(tx)


@pytest.fixture
async def desk(database: Database) -> ToolTaskHarness:
    desk = ToolTaskHarness(database)
    await desk.front.let_in(ADMIN, "admin")
    return desk


async def test_a_tool_is_run_once_and_its_call_result_and_time_are_shown(desk: ToolTaskHarness):
    assert await desk.send_command('/tools try order {"what": "tea"}') == "I run it once."
    assert ran == []
    (text,) = await desk.run_waiting()
    lines = text.splitlines()
    assert lines[0] == 'order {"what": "tea"}'
    assert lines[1].startswith("ok after ")
    assert lines[2] == "ordered tea[31m"
    assert await desk.run_waiting() == []
    assert ran == ["tea"]
    (change,) = await desk.load_changes()
    assert (change.who, change.via, change.what, change.subject) == (ADMIN, "telegram", "tried", "tool order")


async def test_after_a_crash_only_what_is_repeatable_runs_again(desk: ToolTaskHarness):
    await desk.send_command('/tools try order {"what": "tea"}')
    (text,) = await desk.run_waiting(attempt=2)
    assert text.startswith("The gateway stopped while order ran")
    await desk.send_command("/tools try look")
    await desk.run_waiting(attempt=2)
    assert ran == ["look"]


async def test_that_what_runs_once_is_taken_is_on_the_disk_before_it_runs(
    desk: ToolTaskHarness, monkeypatch: pytest.MonkeyPatch
):
    transaction, synced = Database.transaction, list[bool]()

    def watched(database: Database, *, durable: bool = True) -> Any:
        synced.append(durable)
        return transaction(database, durable=durable)

    await desk.send_command('/tools try order {"what": "tea"}')
    before = [row.attempt for row in await desk.front.load_items(kind="house", state="new")]
    monkeypatch.setattr(Database, "transaction", watched)
    run = trying.run_trial

    async def tried(database: Database, trial: trying.Trial) -> trying.TrialResult:
        found = [row.attempt for row in await desk.front.load_items(kind="house", state="new")]
        assert (synced, found) == (
            [True],
            [one + 1 for one in before],
        )  # a commit that writes nothing syncs nothing
        return await run(database, trial)

    monkeypatch.setattr(trying, "run_trial", tried)
    assert (await desk.run_waiting())[0].startswith("order")
    assert ran == ["tea"]


async def test_what_ran_does_not_run_again_while_the_database_is_away(
    desk: ToolTaskHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(patience, "RETRY_SECONDS", 0.0)
    real, failures = outbox.add, [StoreUnavailable("full"), StoreUnavailable("full")]

    async def add(*given: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(*given, **named)

    await desk.send_command('/tools try order {"what": "tea"}')
    monkeypatch.setattr(outbox, "add", add)
    assert len(await desk.run_waiting()) == 1
    assert (ran, failures) == (["tea"], [])
    assert len(await desk.load_changes()) == 1


async def test_what_cannot_be_tried_is_said(desk: ToolTaskHarness):
    await desk.send_command("/tools try nothing")
    assert await desk.run_waiting() == ["nothing cannot be used now; /tools shows how it stands."]
    await desk.send_command("/tools try order {oops")
    (text,) = await desk.run_waiting()
    assert text.startswith("Arguments are JSON")


async def test_all_sources_are_looked_at_anew(desk: ToolTaskHarness):
    await desk.send_command("/tools reload")
    assert await desk.run_waiting() == ["All sources are as they should be.\n2 tools can be used now."]


async def test_a_message_with_a_secret_is_deleted(desk: ToolTaskHarness):
    await desk.send_command("/tools secret set weather hunter2", message_id=77)
    assert await desk.run_waiting() == []
    assert desk.front.bot.calls_of("delete_message")[0]["given"] == (ADMIN, 77)
    assert await desk.front.load_items(kind="house", state="done")


async def test_a_message_that_cannot_be_deleted_is_said(desk: ToolTaskHarness):
    await desk.send_command("/tools secret set weather hunter2", message_id=77)
    desk.front.bot.is_offline = True
    (text,) = await desk.run_waiting()
    assert text.startswith("I could not delete your message")


async def test_an_errand_is_no_lanes_and_asks_for_the_worker(desk: ToolTaskHarness):
    await desk.send_command("/tools reload")
    (row,) = await desk.front.load_items(kind="house")
    assert (row.lane, row.sender) == (None, ADMIN)
    assert desk.front.worker_wakes == 1
    async with desk.front.database.transaction() as tx:
        claimed = await inbox.claim(tx, now=desk.front.now)
    assert [group[0].id for group in claimed.groups] == [row.id]
