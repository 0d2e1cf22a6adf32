"""What /tools does outside its transaction, as inbox items: adding, trying, reloading, deleting a message.

The answer is sent to the admin who asked. An item outlives the process; what is not safe to repeat is not
run a second time.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import inbox, outbox
from bot.db.queues.item_bodies import ToolOrder
from bot.db.retry import retry_until_available
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.domain import InboxItem, Part
from bot.errors import ChangeRefused, SettingsRefused, StoreUnavailable
from bot.tool_registry.registry import ToolRegistry
from bot.translations.translator import Translator, translatable
from bot.usage.plain_text import escape_for_terminal

_LOOKING = translatable("I'm looking at it; the result will appear here.")
STARTED_REPLIES = {
    "add": _LOOKING,
    "pick": _LOOKING,
    "configure": _LOOKING,
    "signin": translatable("I'm getting the link; it will appear here."),
    "try": translatable("I'll run it once."),
    "reload": translatable("I'm reading all sources again."),
}

FinishTask: TypeAlias = Callable[[Transaction], Awaitable[tuple[Part, ...]]]
"""Ends a task in one transaction: stores its result and returns what the admin reads."""


@dataclass(frozen=True, slots=True)
class ToolTask:
    """One task: an item and its order; `item.attempt` counts how often it was begun.

    `translate`: into the language of the person.
    """

    item: InboxItem
    order: ToolOrder
    translate: Translator

    @property
    def actor(self) -> Actor:
        """The person, as the author of what this task changes."""
        return Actor(self.order.person, "telegram")


HandleTask: TypeAlias = Callable[[ToolTask], Awaitable[FinishTask]]
"""Does what a kind of task is about, outside any transaction."""


async def queue_tool_task(context: ActionContext, args: str, *, act: str) -> ActionResult:
    """Queue a task of this kind with the arguments of the person who asks, and reply that it started."""
    await write_tool_task(context, act, words=args)
    return reply_text(context.translate(STARTED_REPLIES[act]))


async def write_tool_task(
    context: ActionContext, act: str, *, words: str = "", message: int | None = None
) -> None:
    """Store a task, to be done at once."""
    order = ToolOrder(act, context.person, context.name, context.lane, words, message)
    await add_tool_order(context.tx, order, now=context.now)


async def unsay_message(context: ActionContext) -> dict[str, Any]:
    """Keep nothing of the person's message, and have it deleted in the chat; returns what it was."""
    message: dict[str, Any] = context.item.body.get("message") or context.item.body["edited_message"]
    await inbox.forget_body(context.tx, [context.item.id])
    await write_tool_task(context, "unsay", message=message["message_id"])
    return message


async def add_tool_order(tx: Transaction, order: ToolOrder, *, now: float) -> None:
    """Store an order, to be done at once."""
    await inbox.add(tx, kind="system", lane=None, sender=order.person, body=order.serialize(), now=now)


@dataclass(frozen=True, slots=True)
class ToolTaskRunner:
    """Runs tasks with the handler of their kind.

    `configured_admins`: of the settings. What an admin has asked for is neither begun nor stored once they
    are none.
    """

    database: Database
    registry: ToolRegistry
    handlers: Mapping[str, HandleTask]
    configured_admins: Collection[int] = ()

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        order = ToolOrder.parse(item.body)
        async with self.database.read_transaction() as tx:
            translate = await people.find_translator(tx, order.person)
            has_right = await self._has_right(tx, order)
        task = ToolTask(item, order, translate)
        handle = self.handlers[order.act]
        try:
            finish = await handle(task) if has_right else finish_with()
            # Wait for the database rather than fail: the task would be done a second time.
            await retry_until_available(partial(self._finish_task, task, finish))
        except (ChangeRefused, SettingsRefused) as refused:
            finish = finish_with(*map(escape_for_terminal, refused.explain(translate).splitlines()))
            await retry_until_available(partial(self._finish_task, task, finish))
        with contextlib.suppress(StoreUnavailable):  # the task is done, and this is noticed a little later
            await self.registry.refresh()

    async def _finish_task(self, task: ToolTask, finish: FinishTask) -> None:
        now = time.time()
        async with self.database.transaction() as tx:
            parts = await finish(tx) if await self._has_right(tx, task.order) else ()
            if parts:
                await outbox.add(tx, item=task.item.id, lane=task.order.lane, parts=parts, now=now)
            await inbox.mark_done(tx, [task.item.id], now=now)

    async def _has_right(self, tx: Transaction, order: ToolOrder) -> bool:
        """Whether who asked may have this done now: an admin all, others sign in with their own account."""
        role = await people.load_role(tx, order.person, self.configured_admins)
        is_own = order.act == "signin" or (order.act == "signed" and order.is_personal)
        return role == "admin" or order.act == "unsay" or (is_own and role == "member")


def finish_with(*lines: str) -> FinishTask:
    """Make the end of a task that stores nothing; without lines it sends nothing either."""

    async def finish(_: Transaction) -> tuple[Part, ...]:
        if not lines:
            return ()
        return (Part("\n".join(lines)),)

    return finish
