"""Builds what tools need: the catalogue of them, who is asked before one runs, and what admins have done about them.

A part of the composition root; app.py builds the rest around it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bot.approvals import Approvals, Reach
from bot.catalogue.catalogue import Catalogue
from bot.catalogue.stock import Where
from bot.db.engine import Database
from bot.domain import Lane, Runner
from bot.gate import Guard
from bot.settings import Settings
from bot.telegram import errands
from bot.telegram.errands import Errands
from bot.telegram.gestures import Gestures
from bot.telegram.sourcing import Sourcing
from bot.telegram.trials import Trials
from tools.base import Tool
from tools.registry import discover


@dataclass(frozen=True, slots=True)
class Toolroom:
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
        """The runner of what admins have done that takes a while, by the name of its job."""
        where = _where(self.settings)
        sourcing = Sourcing(self.database, where, self.own)
        trials = Trials(self.database, self.catalogue, where, gestures)
        by_name = {**sourcing.by_name(), **trials.by_name()}
        return {errands.JOB: Errands(self.database, self.catalogue, by_name, wake_sender)}

    def repeatable(self, name: str) -> bool:
        """Whether it does no harm to run this tool again."""
        tool = self.catalogue.get(name)
        return tool is not None and tool.repeatable


async def opened(
    settings: Settings, database: Database, reach: Reach, tell: Callable[[str, str], Awaitable[None]]
) -> Toolroom:
    """Load the tools there are, the house's own and registered ones; `tell` reaches the admins' feed."""
    own = discover()
    catalogue = Catalogue(database, own, reach.is_admin, _where(settings), tell)
    await catalogue.load()
    approvals = Approvals(database, reach, seconds=settings.approval_seconds)
    return Toolroom(settings, database, {tool.name: tool for tool in own}, catalogue, approvals)


def _where(settings: Settings) -> Where:
    keys = tuple(key.get_secret_value() for key in settings.secrets_key)
    room = min(settings.tools_prompt_tokens, settings.prompt_budget // 2)  # a small prompt is not for tools alone
    return Where(settings.tools_dir, keys, settings.tools_private_hosts, room)
