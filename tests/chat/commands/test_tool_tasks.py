"""Tool tasks outlive the process, answer the admin who asked, and never run a tool twice."""

import json
from typing import Any, cast

import pytest
from telegram import Bot

from bot.chat.commands import try_tool_tasks
from bot.chat.commands.registry import build_group_menu, build_menu
from bot.chat.commands.tool_tasks import ToolTaskRunner
from bot.chat.commands.try_tool_tasks import TryToolTasks
from bot.db import retry
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, outbox
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from bot.domain import InboxItem
from bot.errors import StoreUnavailable
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.try_tool import Trial, TrialResult, run_trial
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
    """An UpdateHarness and the runner of its tool tasks."""

    def __init__(self, database: Database) -> None:
        self.updates = UpdateHarness(database)
        registry = ToolRegistry(database, [order, look], lambda person: person == ADMIN)
        best_effort_calls = BestEffortCalls(
            cast(Bot, self.updates.bot), build_menu, build_group_menu, list, timeout_seconds=0.05
        )
        tasks = TryToolTasks(database, registry, ToolSettings(), best_effort_calls)
        self.runner = ToolTaskRunner(database, registry, tasks.get_handlers())
        ran.clear()

    async def send_command(self, text: str, **more: Any) -> str:
        """Send a command as the admin; return the text of the answer."""
        (sent,) = await self.updates.send_text(text, person=ADMIN, **more)
        return sent.text

    async def run_waiting(self, attempt: int = 1) -> list[str]:
        """Run the waiting tasks as the worker would; return the texts that they sent."""
        waiting = await self.updates.load_items(kind="system", state="new") + await self.updates.load_items(
            kind="system", state="running"
        )
        for row in waiting:
            item = InboxItem(
                row.id, "system", "other", None, row.sender, json.loads(row.body), attempt, False, 0.0
            )
            await self.runner((item,))
        return [message.text for message in await self.updates.read_sent()]

    async def load_changes(self) -> list[AuditEntry]:
        async with self.updates.database.read_transaction() as tx:
            return await audit.list_entries(tx)


@pytest.fixture
async def harness(database: Database) -> ToolTaskHarness:
    harness = ToolTaskHarness(database)
    await harness.updates.let_in(ADMIN, "admin")
    return harness


async def test_a_tool_is_run_once_and_its_call_result_and_time_are_shown(harness: ToolTaskHarness):
    assert await harness.send_command('/tools try order {"what": "tea"}') == "I'll run it once."
    assert ran == []
    (text,) = await harness.run_waiting()
    lines = text.splitlines()
    assert lines[0] == 'order {"what": "tea"}'
    assert lines[1].startswith("ok after ")
    assert lines[2] == "ordered tea[31m"
    assert await harness.run_waiting() == []
    assert ran == ["tea"]
    (change,) = await harness.load_changes()
    assert (change.who, change.via, change.what, change.subject) == (ADMIN, "telegram", "tried", "tool order")


@pytest.mark.parametrize("role", ["member", "blocked"])
async def test_what_an_admin_of_old_has_asked_for_is_not_begun(
    harness: ToolTaskHarness, role: people.RoleOrBlocked
):
    await harness.send_command('/tools try order {"what": "tea"}')
    await harness.updates.let_in(ADMIN, role)
    assert (await harness.run_waiting(), ran, await harness.load_changes()) == ([], [], [])
    assert await harness.updates.load_items(kind="system", state="new") == []


async def test_after_a_crash_only_what_is_repeatable_runs_again(harness: ToolTaskHarness):
    await harness.send_command('/tools try order {"what": "tea"}')
    (text,) = await harness.run_waiting(attempt=2)
    assert text.startswith("I was stopped while order was running")
    await harness.send_command("/tools try look")
    await harness.run_waiting(attempt=2)
    assert ran == ["look"]


@pytest.mark.sqlite
async def test_an_attempt_is_synced_before_a_tool_that_may_run_only_once_runs(
    harness: ToolTaskHarness, monkeypatch: pytest.MonkeyPatch
):
    kind = type(harness.updates.database)
    transaction = kind.transaction
    synced = list[bool]()

    def recording_transaction(database: Database, *, durable: bool = True) -> Any:
        synced.append(durable)
        return transaction(database, durable=durable)

    await harness.send_command('/tools try order {"what": "tea"}')
    before = [row.attempt for row in await harness.updates.load_items(kind="system", state="new")]
    monkeypatch.setattr(kind, "transaction", recording_transaction)

    async def check_and_run(database: Database, trial: Trial) -> TrialResult:
        attempts = [row.attempt for row in await harness.updates.load_items(kind="system", state="new")]
        # A commit that writes nothing syncs nothing, so the attempt must have changed.
        assert synced == [True]
        assert attempts == [attempt + 1 for attempt in before]
        return await run_trial(database, trial)

    monkeypatch.setattr(try_tool_tasks, "run_trial", check_and_run)
    assert (await harness.run_waiting())[0].startswith("order")
    assert ran == ["tea"]


async def test_what_ran_does_not_run_again_while_the_database_is_away(
    harness: ToolTaskHarness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.0)
    real_add = outbox.add
    failures = [StoreUnavailable("full"), StoreUnavailable("full")]

    async def add(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real_add(*args, **kwargs)

    await harness.send_command('/tools try order {"what": "tea"}')
    monkeypatch.setattr(outbox, "add", add)
    assert len(await harness.run_waiting()) == 1
    assert (ran, failures) == (["tea"], [])
    assert len(await harness.load_changes()) == 1


async def test_a_tool_that_cannot_be_tried_is_refused_with_a_reason(harness: ToolTaskHarness):
    await harness.send_command("/tools try nothing")
    assert await harness.run_waiting() == ["nothing can't be used right now; /tools shows why."]
    await harness.send_command("/tools try order {oops")
    (text,) = await harness.run_waiting()
    assert text.startswith("Arguments are JSON")


async def test_all_sources_are_looked_at_anew(harness: ToolTaskHarness):
    await harness.send_command("/tools reload")
    assert await harness.run_waiting() == ["All sources are working.\n2 tools can be used now."]


async def test_a_message_with_a_secret_is_deleted(harness: ToolTaskHarness):
    await harness.send_command("/tools secret set weather hunter2", message_id=77)
    assert await harness.run_waiting() == []
    assert harness.updates.bot.calls_of("delete_message")[0]["given"] == (ADMIN, 77)
    assert await harness.updates.load_items(kind="system", state="done")


async def test_a_message_that_cannot_be_deleted_is_reported(harness: ToolTaskHarness):
    await harness.send_command("/tools secret set weather hunter2", message_id=77)
    harness.updates.bot.is_offline = True
    (text,) = await harness.run_waiting()
    assert text.startswith("I couldn't delete your message")


async def test_a_tool_task_has_no_lane_and_wakes_the_worker(harness: ToolTaskHarness):
    await harness.send_command("/tools reload")
    (row,) = await harness.updates.load_items(kind="system")
    assert (row.lane, row.sender) == (None, ADMIN)
    assert harness.updates.commits.inbox_count == 1
    async with harness.updates.database.transaction() as tx:
        claimed = await inbox.claim(tx, now=harness.updates.now)
    assert [group[0].id for group in claimed.groups] == [row.id]
