"""Runs inbox items of kind `hook`: says what was posted to a hook, or does its task with that.

The admin who made the hook must still be one, and its group still be let in, when an item is run.
"""

from dataclasses import dataclass

from bot.agent.prompt import build_data_block
from bot.attachments.excerpts import excerpt_text
from bot.chat.access import ACCESS_LOST, Access
from bot.chat.quota import TurnService
from bot.chat.tasks import UnansweredEnd, add_speaker
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import hooks, inbox, outbox
from bot.db.queues.hooks import Hook
from bot.db.queues.item_bodies import HookPost
from bot.db.transaction import Transaction
from bot.domain import TASKS_PRIORITY, InboxItem
from bot.telegram.formatting.render import build_plain_parts
from bot.turns import TurnRequest

TASK_PREFIX = "[This is a task you were asked to do with what another program posts. Do it now.] "
"""Stands before the text of a hook's task, for the model."""


@dataclass(frozen=True, slots=True)
class HookRunner:
    """The runner. `max_text_bytes`: of a post in a prompt."""

    database: Database
    access: Access
    turns: TurnService
    end_unanswered: UnansweredEnd
    max_text_bytes: int

    async def __call__(self, items: tuple[InboxItem, ...]) -> None:
        [item] = items
        post = HookPost.parse(item.body)
        async with self.database.transaction() as tx:
            hook = await hooks.find(tx, post.hook)
            if hook and not await hooks.check_right(tx, hook, self.access.configured_admins):
                hook = None
            if hook is not None and hook.task is None:
                await _say(tx, item, hook, post.text)
                return
        if hook is None or hook.task is None:
            await self.end_unanswered(item, ACCESS_LOST)
        else:
            await self.turns.run(await self._build_request(item, hook, hook.task, post.text))

    async def _build_request(self, item: InboxItem, hook: Hook, task: str, text: str) -> TurnRequest:
        """Build the request to do a task with a post, which stands in it as text of others."""
        excerpt = excerpt_text(text, self.max_text_bytes)
        # The label of a file: what others wrote says nothing about which tools are needed.
        label = ", ".join(filter(None, (f"file with what {hook.name} posted", excerpt.part)))
        async with self.database.transaction(durable=False) as tx:
            person = await people.find(tx, hook.person)
            name = person.name if person is not None else ""
            speaker = ""
            if hook.lane.is_group:
                speaker = await add_speaker(tx, hook.lane, hook.person, name)
        return TurnRequest(
            (item,),
            hook.lane,
            hook.person,
            name,
            texts=(f"{TASK_PREFIX}{task}\n{build_data_block(label, excerpt.text)}",),
            preface=_format_heading(hook),
            priority=TASKS_PRIORITY,
            translate=self.access.get_translator(hook.person),
            speaker=speaker,
        )


async def _say(tx: Transaction, item: InboxItem, hook: Hook, text: str) -> None:
    parts = build_plain_parts(f"{_format_heading(hook)}{text}")
    await outbox.add(tx, item=item.id, lane=hook.lane, parts=parts, now=item.taken_at)
    await inbox.mark_done(tx, [item.id], now=item.taken_at)


def _format_heading(hook: Hook) -> str:
    """Format what a message begins with, so that nobody takes the words of another program for ours."""
    return f"🔔 {hook.name}\n\n"
