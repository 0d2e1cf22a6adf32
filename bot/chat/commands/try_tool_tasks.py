"""Tool tasks that add nothing: try a tool once, reload all sources, delete a message with a secret."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from bot.chat.commands.tool_tasks import FinishTask, HandleTask, ToolTask, finish_with
from bot.chat.commands.tool_text import build_parts
from bot.db.engine import Database
from bot.db.queues import inbox
from bot.db.transaction import Transaction
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.tool_registry.changes import refresh_documents
from bot.tool_registry.formatting import format_waiting_tools
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.tool_info import load_tool_infos
from bot.tool_registry.try_tool import Trial, format_trial_result, record_trial, run_trial
from bot.translations.translator import translatable
from bot.usage.plain_text import escape_for_terminal

NOT_REPEATED = translatable(
    "I was stopped while {name} was running, so I don't know what it did. I won't run it again on my own."
)
NOT_DELETED = translatable("I couldn't delete your message with the secret. Please delete it yourself.")
ALL_SOURCES_FINE = translatable("All sources are working.")


@dataclass(frozen=True, slots=True)
class TryToolTasks:
    """The handlers of these tasks."""

    database: Database
    registry: ToolRegistry
    tool_settings: ToolSettings
    best_effort_calls: BestEffortCalls

    def get_handlers(self) -> Mapping[str, HandleTask]:
        """Return the handlers by the kind of task."""
        return {"try": self._try_tool, "reload": self._reload_sources, "unsay": self._delete_message}

    async def _try_tool(self, task: ToolTask) -> FinishTask:
        name, arguments, *_ = [*task.order.words.split(maxsplit=1), ""]
        tool = self.registry.get(name)
        if tool is None:
            raise ChangeRefused("{name} can't be used right now; /tools shows why.", name=name[:80])
        if task.item.attempt > 1 and not tool.repeatable:
            raise ChangeRefused(NOT_REPEATED, name=name)
        if not tool.repeatable:
            async with self.database.transaction() as tx:
                await inbox.count_attempt(tx, task.item.id)
        trial = Trial(tool, arguments, task.order.person, task.order.name, task.order.lane)
        result = await run_trial(self.database, trial)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await record_trial(tx, task.actor, result, now=time.time())
            return build_parts(
                [escape_for_terminal(line) for line in format_trial_result(task.translate, result)]
            )

        return finish

    async def _reload_sources(self, task: ToolTask) -> FinishTask:
        translate = task.translate
        troubles = await refresh_documents(self.database, self.tool_settings)
        troubles += await self.registry.reload_files()
        troubles += await self.registry.refresh_listings()
        lines = [escape_for_terminal(trouble) for trouble in troubles]
        async with self.database.read_transaction() as tx:
            registered = await load_tool_infos(tx, builtin_tools={})
        lines += format_waiting_tools(translate, registered, "/tools accept")
        lines = lines or [translate(ALL_SOURCES_FINE)]
        count = len(self.registry.tools)
        usable = translate.plural("{count} tool can be used now.", "{count} tools can be used now.", count)
        return finish_with(*lines, usable)

    async def _delete_message(self, task: ToolTask) -> FinishTask:
        assert task.order.message is not None
        deleted = await self.best_effort_calls.delete_message(task.order.lane, task.order.message)
        await self.database.erase_deleted()
        if deleted:
            return finish_with()
        return finish_with(task.translate(NOT_DELETED))
