"""Builds what has to do with tools: those there are, how people are asked about calls, what /tools leaves to
be done.

The tools' side of the composition root; app.py builds the rest around it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.db.engine import Database
from bot.db.queues.admin_notices import Notices
from bot.db.queues.parked_items import Ended
from bot.domain import Lane, Runner
from bot.settings import Settings
from bot.telegram.access import Access
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.add_tool_tasks import Sourcing
from bot.telegram.commands.tool_tasks import Errands
from bot.telegram.commands.try_tool_tasks import Trials
from bot.tool_registry.loader import where
from bot.tool_registry.registry import Catalogue, Tell
from bot.turns.approvals import Approvals, Reach
from bot.turns.tool_policy import Guard
from bot.usage.timers import Watches
from tools.base import Tool
from tools.registry import discover


@dataclass(frozen=True, slots=True)
class Workshop:
    """Opened once; `own` are the house's own tools by name."""

    settings: Settings
    database: Database
    own: Mapping[str, Tool]
    catalogue: Catalogue
    approvals: Approvals

    @property
    def guard(self) -> Guard:
        """What says which calls of a turn run."""
        return Guard(self.approvals, self.catalogue.granted, self.settings.turn_calls, self.catalogue.rests)

    def errands(self, gestures: Gestures, wake_sender: Callable[[Lane], None]) -> Mapping[str, Runner]:
        """The runner of what /tools leaves to be done, by the name of its job."""
        here = where(self.settings)
        sourcing = Sourcing(self.database, here, self.own)
        trials = Trials(self.database, self.catalogue, here, gestures)
        by_name = {**sourcing.by_name(), **trials.by_name()}
        return {errands.JOB: Errands(self.database, self.catalogue, by_name, wake_sender)}

    def repeatable(self, name: str) -> bool:
        """Whether it does no harm to run this tool again."""
        tool = self.catalogue.get(name)
        return tool is not None and tool.repeatable


async def opened(settings: Settings, database: Database, reach: Reach, tell: Tell) -> Workshop:
    """Load the tools there are, the house's own and registered ones; `tell` reaches the admins' feed."""
    own = discover()
    catalogue = Catalogue(database, own, reach.is_admin, where(settings), tell)
    await catalogue.load()
    approvals = Approvals(database, reach, seconds=settings.approval_seconds)
    return Workshop(settings, database, {tool.name: tool for tool in own}, catalogue, approvals)


def asking(
    notices: Notices,
    access: Access,
    wake_sender: Callable[[Lane], None],
    wake_worker: Callable[[], None],
    watches: Watches,
) -> Reach:
    """What approvals need of the house."""

    def ended(one: Ended) -> None:
        watches.end(one.item, one.lane, one.spans)
        wake_sender(one.lane)

    return Reach(
        admins=notices.admins,
        is_admin=lambda person: access.standing(person) == "admin",
        wake_sender=wake_sender,
        wake_worker=wake_worker,
        ended=ended,
    )
