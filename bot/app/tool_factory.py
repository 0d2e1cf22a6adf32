"""Builds what has to do with tools: those there are, how people are asked about calls, what /tools leaves to
be done.

The tools' side of the composition root; app.py builds the rest around it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.db.engine import Database
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.parked_items import EndedTurn
from bot.domain import Lane, Runner
from bot.settings import Settings
from bot.telegram.access import Access
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.add_tool_tasks import AddToolTasks
from bot.telegram.commands.tool_tasks import ToolTaskRunner
from bot.telegram.commands.try_tool_tasks import TryToolTasks
from bot.tool_registry.loader import build_tool_settings
from bot.tool_registry.registry import NotifyAdmins, ToolRegistry
from bot.turns.approvals import ApprovalDependencies, Approvals
from bot.turns.tool_policy import ToolPolicyDependencies
from bot.usage.timers import TurnTimers
from tools.base import Tool
from tools.registry import discover


@dataclass(frozen=True, slots=True)
class ToolFactory:
    """Opened once; `own` are the house's own tools by name."""

    settings: Settings
    database: Database
    builtin_tools: Mapping[str, Tool]
    tool_registry: ToolRegistry
    approvals: Approvals

    @property
    def policy_dependencies(self) -> ToolPolicyDependencies:
        """What says which calls of a turn run."""
        return ToolPolicyDependencies(
            self.approvals,
            self.tool_registry.can_use,
            self.settings.turn_calls,
            self.tool_registry.is_unavailable,
        )

    def build_task_runners(
        self, best_effort_calls: BestEffortCalls, wake_sender: Callable[[Lane], None]
    ) -> Mapping[str, Runner]:
        """The runner of what /tools leaves to be done, by the name of its job."""
        here = build_tool_settings(self.settings)
        sourcing = AddToolTasks(self.database, here, self.builtin_tools)
        trials = TryToolTasks(self.database, self.tool_registry, here, best_effort_calls)
        by_name = {**sourcing.get_handlers(), **trials.get_handlers()}
        return {errands.TOOLS_JOB: ToolTaskRunner(self.database, self.tool_registry, by_name, wake_sender)}

    def is_repeatable(self, name: str) -> bool:
        """Whether it does no harm to run this tool again."""
        tool = self.tool_registry.get(name)
        return tool is not None and tool.repeatable


async def load_tools(
    settings: Settings, database: Database, dependencies: ApprovalDependencies, notify_admins: NotifyAdmins
) -> ToolFactory:
    """Load the tools there are, the house's own and registered ones; `tell` reaches the admins' feed."""
    own = discover()
    catalogue = ToolRegistry(
        database, own, dependencies.is_admin, build_tool_settings(settings), notify_admins
    )
    await catalogue.load()
    approvals = Approvals(database, dependencies, timeout_seconds=settings.approval_seconds)
    return ToolFactory(settings, database, {tool.name: tool for tool in own}, catalogue, approvals)


def build_approval_dependencies(
    notices: AdminNotices,
    access: Access,
    wake_sender: Callable[[Lane], None],
    wake_worker: Callable[[], None],
    timers: TurnTimers,
) -> ApprovalDependencies:
    """What approvals need of the house."""

    def ended(one: EndedTurn) -> None:
        timers.end(one.item, one.lane, one.spans)
        wake_sender(one.lane)

    return ApprovalDependencies(
        reachable_admins=notices.list_admins,
        is_admin=lambda person: access.get_role(person) == "admin",
        wake_sender=wake_sender,
        wake_worker=wake_worker,
        on_turn_ended=ended,
    )
