"""What /tools leaves to be done outside of its transaction, as items of the house: adding, trying, looking
anew, deleting a message. The answer is sent to the admin who asked.

An item outlives the process; what may not simply run again is not run a second time.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from bot.db.engine import Database, Transaction
from bot.db.queues import inbox, outbox
from bot.db.retry import retry_until_available
from bot.db.tools.audit import Actor
from bot.domain import InboxItem, Lane, Part
from bot.errors import ChangeRefused, SettingsRefused, StoreUnavailable
from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.tool_registry.registry import ToolRegistry
from bot.usage.plain_text import escape_for_terminal

TOOLS_JOB = "tools"
STARTED_REPLIES = {
    "add": "I look at it; what I find comes here.",
    "pick": "I look at it; what I find comes here.",
    "try": "I run it once.",
    "reload": "I look at all sources anew.",
}

FinishTask: TypeAlias = Callable[[Transaction], Awaitable[tuple[Part, ...]]]
"""Ends an errand in one transaction: writes down what came of it and gives what the admin reads."""


@dataclass(frozen=True, slots=True)
class ToolTask:
    """One errand: what was asked, by whom and where; `attempt` counts how often it was begun."""

    item: InboxItem
    person: int
    name: str
    lane: Lane
    args: str

    @property
    def actor(self) -> Actor:
        """Who changes something by this."""
        return Actor(self.person, "telegram")


async def queue_tool_task(context: ActionContext, args: str, *, do: str) -> ActionResult:
    """Have something done about tools; `rest` are the words of the person who asks."""
    return await write_tool_task(context, do, {"words": args}, STARTED_REPLIES[do])


async def write_tool_task(
    context: ActionContext, do: str, fields: Mapping[str, Any], reply: str = ""
) -> ActionResult:
    """Write an errand down, to be done at once."""
    about = {"person": context.person, "name": context.name, "lane": context.lane.key}
    body = {"job": TOOLS_JOB, "do": do, **about, **fields}
    await inbox.add(context.tx, kind="house", lane=None, sender=context.person, body=body, now=context.now)
    return ActionResult(reply_text(reply).parts if reply else (), after_commit=(context.deps.wake_worker,))


class ToolTaskRunner:
    """The runner of errands, by what is to be done; `wake_sender` is called for the lane that has something
    to read.
    """

    def __init__(
        self,
        database: Database,
        registry: ToolRegistry,
        handlers: Mapping[str, Callable[[ToolTask], Awaitable[FinishTask]]],
        wake_sender: Callable[[Lane], None],
    ) -> None:
        self._database = database
        self._registry = registry
        self._handlers = handlers
        self._wake_sender = wake_sender

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        body = item.body
        errand = ToolTask(item, body["person"], body["name"], Lane.parse(body["lane"]), body.get("words", ""))
        try:
            finish = await self._handlers[body["do"]](errand)
            await retry_until_available(
                partial(self._finish_task, errand, finish)
            )  # what was done is not done again for the database
        except (ChangeRefused, SettingsRefused) as refused:
            await retry_until_available(
                partial(
                    self._finish_task,
                    errand,
                    finish_with(*map(escape_for_terminal, str(refused).splitlines())),
                )
            )
        with contextlib.suppress(StoreUnavailable):  # the errand is done, and this is noticed a little later
            await self._registry.refresh()

    async def _finish_task(self, task: ToolTask, finish: FinishTask) -> None:
        now = time.time()
        async with self._database.transaction() as tx:
            parts = await finish(tx)
            if parts:
                await outbox.add(tx, item=task.item.id, lane=task.lane, parts=parts, now=now)
            await inbox.mark_done(tx, [task.item.id], now=now)
        self._wake_sender(task.lane)


def finish_with(*lines: str) -> FinishTask:
    """The end of an errand of which nothing is written down."""

    async def finish(_: Transaction) -> tuple[Part, ...]:
        if lines:
            return (Part("\n".join(lines)),)
        return ()

    return finish
