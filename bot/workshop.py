"""Builds what has to do with tools: those there are, how people are asked about calls, what /tools leaves to be done.

The tools' side of the composition root; app.py builds the rest around it.
"""

from collections.abc import Callable

from bot.approvals import Reach
from bot.catalogue.catalogue import Catalogue, Tell
from bot.catalogue.stock import where
from bot.db.engine import Database
from bot.db.notices import Notices
from bot.domain import Lane
from bot.settings import Settings
from bot.telegram.access import Access
from bot.telegram.errands import Errands
from bot.telegram.gestures import Gestures
from bot.telegram.sourcing import Sourcing
from bot.telegram.trials import Trials
from bot.usage.watch import Watches
from tools.registry import discover


async def catalogue(settings: Settings, database: Database, access: Access, tell: Tell) -> Catalogue:
    """The tools there are, the house's own and registered ones."""
    found = Catalogue(database, discover(), lambda person: access.standing(person) == "admin", where(settings), tell)
    await found.load()
    return found


def asking(
    notices: Notices,
    access: Access,
    wake_sender: Callable[[Lane], None],
    wake_worker: Callable[[], None],
    watches: Watches,
) -> Reach:
    """What approvals need of the house."""
    return Reach(
        admins=notices.admins,
        is_admin=lambda person: access.standing(person) == "admin",
        wake_sender=wake_sender,
        wake_worker=wake_worker,
        ended=lambda one: watches.end(one.item, one.lane, one.spans),
    )


def errands(
    settings: Settings,
    database: Database,
    tools: Catalogue,
    gestures: Gestures,
    wake_sender: Callable[[Lane], None],
) -> Errands:
    """What /tools leaves to be done."""
    here, own = where(settings), {tool.name: tool for tool in discover()}
    adding, trials = Sourcing(database, here, own), Trials(database, tools, here, gestures)
    return Errands(database, tools, {**adding.by_name(), **trials.by_name()}, wake_sender)
