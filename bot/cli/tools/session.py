"""What every `canvasgram tools …` stands on: the settings, the database, and one transaction an act.

A running gateway notices what was written here within two seconds.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.db import readonly as looking
from bot.db.engine import Database, connected
from bot.db.people import people
from bot.db.tools.audit import MACHINE
from bot.settings import NO_BOT, load
from bot.tool_registry.admin_actions import Act
from bot.tool_registry.encryption import Sealer
from bot.tool_registry.formatting import Name
from bot.tool_registry.loader import Where, where
from bot.tool_registry.tool_info import Own
from tools.registry import discover


@dataclass(frozen=True, slots=True)
class Desk:
    """An open database and what the settings say of tools; `own` are the house's own tools."""

    database: Database
    where: Where
    own: Own

    @property
    def sealer(self) -> Sealer:
        return Sealer(self.where.keys)

    @contextlib.asynccontextmanager
    async def acting(self) -> AsyncIterator[Act]:
        """One act of whoever sits here; it is committed when the block ends."""
        async with self.database.transaction() as tx:
            yield Act(tx, MACHINE, time.time(), self.own)

    async def secrets(self) -> Mapping[str, str]:
        """Every secret, opened."""
        async with self.database.reading() as tx:
            return await self.sealer.opened(tx)

    async def named(self) -> Name:
        """What people are called in lists."""
        async with self.database.reading() as tx:
            known = {one.id: one.name for one in await people.everyone(tx)}
        return lambda number: f"{known.get(number, 'person')} ({number})"


@contextlib.asynccontextmanager
async def opened(env_file: Path) -> AsyncIterator[Desk]:
    """The desk, by the settings. Raises what is wrong with them, or that there is no database of this
    version.
    """
    settings = load(env_file, telegram_token=NO_BOT)
    looking.present(settings.database_url)
    async with connected(settings.database_url) as database:
        yield Desk(database, where(settings), {tool.name: tool for tool in discover()})
