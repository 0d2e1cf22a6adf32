"""Builds what tools need: the registry, the approvals of calls, and the runners of /tools tasks.

A part of the composition root; factory.py builds the rest.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from bot.app.replica import ReplicaLink
from bot.chat.access import Access
from bot.chat.commands.add_tool_tasks import AddToolTasks
from bot.chat.commands.sign_in_tasks import SignInTasks, ToolRights, build_offer
from bot.chat.commands.tool_tasks import ToolTaskRunner
from bot.chat.commands.try_tool_tasks import TryToolTasks
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import outbox
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.item_bodies import TOOLS_JOB
from bot.db.queues.parked_items import EndedTurn
from bot.db.retry import retry_until_available
from bot.domain import Lane, NotifyAdmins, Runner
from bot.settings import Settings
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.tool_registry.loader import build_builtin_tools, build_tool_settings
from bot.tool_registry.registry import ToolRegistry
from bot.turns.approvals import ApprovalDependencies, Approvals
from bot.turns.tool_policy import ToolPolicyDependencies
from bot.usage.timers import TurnTimers
from tools.base import Tool, ToolContext
from tools.builtin.fetch_page import make_page_tool
from tools.net.pages import PageReader


@dataclass(frozen=True, slots=True)
class ToolFactory:
    """Made by `load_tools`; `builtin_tools` are by name."""

    settings: Settings
    database: Database
    builtin_tools: Mapping[str, Tool]
    tool_registry: ToolRegistry
    approvals: Approvals
    sign_in_tasks: SignInTasks

    @property
    def policy_dependencies(self) -> ToolPolicyDependencies:
        """What decides which calls of a turn run."""
        return ToolPolicyDependencies(
            self.approvals,
            self.tool_registry.can_use,
            self.tool_registry.is_unavailable,
        )

    def build_task_runners(self, best_effort_calls: BestEffortCalls) -> Mapping[str, Runner]:
        """The runner of the tasks that /tools leaves in the inbox, by the name of their job."""
        tool_settings = build_tool_settings(self.settings)
        add_tasks = AddToolTasks(self.database, tool_settings, self.builtin_tools, self.sign_in_tasks)
        try_tasks = TryToolTasks(self.database, self.tool_registry, tool_settings, best_effort_calls)
        handlers = {
            **add_tasks.get_handlers(),
            **try_tasks.get_handlers(),
            **self.sign_in_tasks.get_handlers(),
        }
        admins = self.settings.admin_ids
        runner = ToolTaskRunner(self.database, self.tool_registry, handlers, admins)
        return {TOOLS_JOB: runner}


async def load_tools(
    settings: Settings,
    database: Database,
    dependencies: ApprovalDependencies,
    notify_admins: NotifyAdmins,
    page_reader: PageReader | None = None,
    *,
    look_seconds: float | None = None,
) -> ToolFactory:
    """Load the built-in and the registered tools.

    `page_reader` replaces the one of `fetch_page`. `look_seconds`: between looks for questions that other
    processes have put (None: there are none).
    """
    builtin_tools = build_builtin_tools(settings)
    if page_reader is not None:
        page_tool = make_page_tool(page_reader)
        builtin_tools[page_tool.name] = page_tool

    async def offer_sign_in(source_name: str, context: ToolContext) -> None:
        """Offer a person to sign in, in the chat of the call."""
        lane = Lane.parse(context.chat)

        async def write() -> None:
            async with database.transaction() as tx:
                offer = build_offer(await people.find_translator(tx, context.person_id), source_name)
                await outbox.add(tx, item=None, lane=lane, parts=(offer,), now=time.time())

        await retry_until_available(write)

    tool_registry = ToolRegistry(
        database,
        builtin_tools.values(),
        dependencies.is_admin,
        build_tool_settings(settings),
        notify_admins,
        offer_sign_in,
    )
    await retry_until_available(tool_registry.load)
    approvals = Approvals(
        database, dependencies, timeout_seconds=settings.approval_seconds, look_seconds=look_seconds
    )
    sign_in_tasks = SignInTasks(
        database,
        build_tool_settings(settings),
        builtin_tools,
        ToolRights(dependencies.is_admin, tool_registry.can_use, settings.admin_ids),
    )
    return ToolFactory(settings, database, builtin_tools, tool_registry, approvals, sign_in_tasks)


def build_approval_dependencies(
    notices: AdminNotices,
    access: Access,
    timers: TurnTimers,
    link: ReplicaLink | None,
) -> ApprovalDependencies:
    """What approvals need of the gateway."""

    def on_turn_ended(turn: EndedTurn) -> None:
        if link is None or link.own_shares.has(turn.lane):  # else the replica that has the chat finds it
            timers.end(turn.item, turn.lane, turn.spans)

    return ApprovalDependencies(
        notices=notices,
        is_admin=lambda person: access.get_role(person) == "admin",
        on_turn_ended=on_turn_ended,
    )
