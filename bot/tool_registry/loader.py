"""What the catalogue is made of, read anew whenever it changed: rows, files, and what servers list.

Writes down what sources were found to give, and what waits for an admin. Judging is assembling's.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot.db import revisions
from bot.db.engine import Database, Transaction
from bot.db.retry import patiently
from bot.db.tools import grants, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import SettingsRefused
from bot.settings import Settings
from bot.tool_registry import python_files as files
from bot.tool_registry.assembly import Standing, Supply, assemble
from bot.tool_registry.encryption import Sealer
from bot.tool_registry.python_files import Loaded
from bot.tool_registry.sources import Supplying
from tools.base import Tool
from tools.threads import in_thread

if TYPE_CHECKING:
    from tools.mcp.definitions import Listing

GONE = "it is not in TOOLS_DIR any more"


@dataclass(frozen=True, slots=True)
class Where:
    """What the settings say: the folder of files, the keys of secrets, and the private hosts that may be
    reached.

    `room`: the most tokens of a prompt for tools.
    """

    folder: Path | None = None
    keys: tuple[str, ...] = ()
    private: frozenset[str] = frozenset()
    room: int = 2000


HERE = Where()


def where(settings: Settings) -> Where:
    """The same, of the settings. A small prompt is not for tools alone."""
    keys = tuple(key.get_secret_value() for key in settings.secrets_key)
    room = min(settings.tools_prompt_tokens, settings.prompt_budget // 2)
    return Where(settings.tools_dir, keys, settings.tools_private_hosts, room)


@dataclass(frozen=True, slots=True)
class Rows:
    """What the database holds, as of one moment; `sealed` says why secrets cannot be opened."""

    revisions: Mapping[str, int]
    sources: tuple[Source, ...]
    tools: tuple[StoredTool, ...]
    grants: tuple[Grant, ...]
    secrets: Mapping[str, str] = field(default_factory=dict)
    sealed: str | None = None


class Stock:
    """`own` are the house's own tools; `heard` is called when what a server lists has been written down."""

    def __init__(
        self, database: Database, own: Iterable[Tool], where: Where, heard: Callable[[], Awaitable[None]]
    ):
        self.own = tuple(own)
        self._database = database
        self._where = where
        self._heard = heard
        self._loaded = Loaded()
        self._troubles: Mapping[str, str] = {}
        self._sealer = Sealer(where.keys)
        self._supplying = Supplying(where.private, self._hear)

    async def run(self) -> None:
        """Keep the connections to servers until cancelled."""
        await self._supplying.run()

    async def load_files(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR anew; what went wrong, a line each."""
        if self._where.folder is None:
            return ()
        self._loaded = await in_thread(files.load, self._where.folder, self.own)
        lines = (self._loaded.refused, *(file.trouble for file in self._loaded.files))
        return tuple(line for line in lines if line is not None)

    async def ask_servers(self) -> tuple[str, ...]:
        """Have all servers say anew what they offer, while `run` runs; what went wrong, a line each."""
        return await self._supplying.look()

    @property
    def trouble_changed(self) -> bool:
        """Whether a server went away or came back since rows were read last."""
        return self._supplying.troubles() != self._troubles

    async def revisions(self) -> Mapping[str, int]:
        """Where the rows stand; one cheap look."""
        async with self._database.reading() as tx:
            return await revisions.read(tx)

    async def renew(self) -> tuple[Rows, Standing]:
        """Read everything anew, and write down what was found."""
        async with self._database.reading() as tx:
            rows = await self._read(tx)
        standing = self._assembled(rows)
        if standing.rows or standing.forgotten or standing.troubles or self._fresh(rows):
            async with self._database.transaction() as tx:
                rows = await self._read(tx)
                standing = self._assembled(rows)
                for source in self._fresh(rows):
                    await sources.put(tx, source)
                for row in standing.rows:
                    await tools.put(tx, row)
                if standing.forgotten:
                    await tools.remove(tx, list(standing.forgotten))
                await sources.troubled(tx, standing.troubles)
        return rows, standing

    async def _read(self, tx: Transaction) -> Rows:
        found = await sources.all_of(tx)
        sealed = None
        secrets: Mapping[str, str] = {}
        if found:
            try:
                secrets = await self._sealer.opened(tx)
            except SettingsRefused as refused:
                sealed = str(refused)
        known = await tools.all_of(tx)
        given = await grants.all_of(tx)
        return Rows(await revisions.read(tx), tuple(found), tuple(known), tuple(given), secrets, sealed)

    def _assembled(self, rows: Rows) -> Standing:
        others = [one for one in rows.sources if one.kind != "file"]
        supplies = self._supplying.supplies(others, rows.secrets)
        self._troubles = self._supplying.troubles()
        return assemble(self.own, [*self._of_files(rows), *supplies], rows.tools, now=time.time())

    def _of_files(self, rows: Rows) -> list[Supply]:
        loaded = {file.name: file for file in self._loaded.files}
        known = [one for one in rows.sources if one.kind == "file"]
        found = []
        for source in (*known, *self._fresh(rows)):
            file = loaded.get(source.name)
            if file is None:
                found.append(Supply(source, trouble=self._loaded.refused or GONE))
            else:
                found.append(Supply(source, file.tools, file.trouble))
        return found

    def _fresh(self, rows: Rows) -> list[Source]:
        """Files that have no row yet."""
        known = {one.name for one in rows.sources}
        folder = self._where.folder or Path()
        now = time.time()
        fresh = [file.name for file in self._loaded.files if file.name not in known]
        return [Source(name, "file", str(folder / name), added_at=now) for name in fresh]

    async def _hear(self, name: str, listing: "Listing") -> None:
        """A server lists other tools than it did: what is new or changed waits for an admin."""

        async def write() -> bool:
            async with self._database.transaction() as tx:
                source = await sources.find(tx, name)
                told = [one.as_json() for one in listing.definitions]
                if source is None or source.options.get("listing") == told:
                    return False
                await sources.put(tx, replace(source, options={**source.options, "listing": told}))
            return True

        if await patiently(write):
            await self._heard()
