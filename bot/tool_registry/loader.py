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
from bot.db.retry import retry_until_available
from bot.db.tools import grants, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.errors import SettingsRefused
from bot.settings import Settings
from bot.tool_registry import python_files as files
from bot.tool_registry.assembly import RegistryState, SourceTools, assemble
from bot.tool_registry.encryption import SecretBox
from bot.tool_registry.python_files import LoadedFolder
from bot.tool_registry.sources import SourceLoader
from tools.base import Tool
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.definitions import McpToolListing

FILE_REMOVED = "it is not in TOOLS_DIR any more"


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the settings say: the folder of files, the keys of secrets, and the private hosts that may be
    reached.

    `room`: the most tokens of a prompt for tools.
    """

    folder: Path | None = None
    secret_keys: tuple[str, ...] = ()
    private_hosts: frozenset[str] = frozenset()
    max_prompt_tokens: int = 2000


DEFAULT_TOOL_SETTINGS = ToolSettings()


def build_tool_settings(settings: Settings) -> ToolSettings:
    """The same, of the settings. A small prompt is not for tools alone."""
    keys = tuple(key.get_secret_value() for key in settings.secrets_key)
    room = min(settings.tools_prompt_tokens, settings.prompt_budget // 2)
    return ToolSettings(settings.tools_dir, keys, settings.tools_private_hosts, room)


@dataclass(frozen=True, slots=True)
class RegistryRows:
    """What the database holds, as of one moment; `sealed` says why secrets cannot be opened."""

    revisions: Mapping[str, int]
    sources: tuple[Source, ...]
    tools: tuple[StoredTool, ...]
    grants: tuple[Grant, ...]
    secrets: Mapping[str, str] = field(default_factory=dict)
    secrets_error: str | None = None


class RegistryLoader:
    """`own` are the house's own tools; `heard` is called when what a server lists has been written down."""

    def __init__(
        self,
        database: Database,
        builtin_tools: Iterable[Tool],
        settings: ToolSettings,
        on_listing_stored: Callable[[], Awaitable[None]],
    ):
        self.builtin_tools = tuple(builtin_tools)
        self._database = database
        self._settings = settings
        self._on_listing_stored = on_listing_stored
        self._loaded_folder = LoadedFolder()
        self._troubles: Mapping[str, str] = {}
        self._secret_box = SecretBox(settings.secret_keys)
        self._source_loader = SourceLoader(settings.private_hosts, self._store_listing)

    async def run(self) -> None:
        """Keep the connections to servers until cancelled."""
        await self._source_loader.run()

    async def load_files(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR anew; what went wrong, a line each."""
        if self._settings.folder is None:
            return ()
        self._loaded_folder = await run_in_thread(
            files.load_folder, self._settings.folder, self.builtin_tools
        )
        lines = (self._loaded_folder.refusal_reason, *(file.trouble for file in self._loaded_folder.files))
        return tuple(line for line in lines if line is not None)

    async def refresh_listings(self) -> tuple[str, ...]:
        """Have all servers say anew what they offer, while `run` runs; what went wrong, a line each."""
        return await self._source_loader.refresh_listings()

    @property
    def has_trouble_changed(self) -> bool:
        """Whether a server went away or came back since rows were read last."""
        return self._source_loader.list_troubles() != self._troubles

    async def load_revisions(self) -> Mapping[str, int]:
        """Where the rows stand; one cheap look."""
        async with self._database.read_transaction() as tx:
            return await revisions.read_all(tx)

    async def refresh(self) -> tuple[RegistryRows, RegistryState]:
        """Read everything anew, and write down what was found."""
        async with self._database.read_transaction() as tx:
            rows = await self._load_rows(tx)
        standing = self._assemble(rows)
        if (
            standing.rows_to_store
            or standing.names_to_delete
            or standing.trouble_changes
            or self._find_new_files(rows)
        ):
            async with self._database.transaction() as tx:
                rows = await self._load_rows(tx)
                standing = self._assemble(rows)
                for source in self._find_new_files(rows):
                    await sources.put(tx, source)
                for row in standing.rows_to_store:
                    await tools.put(tx, row)
                if standing.names_to_delete:
                    await tools.remove(tx, list(standing.names_to_delete))
                await sources.store_troubles(tx, standing.trouble_changes)
        return rows, standing

    async def _load_rows(self, tx: Transaction) -> RegistryRows:
        found = await sources.list_all(tx)
        sealed = None
        secrets: Mapping[str, str] = {}
        if found:
            try:
                secrets = await self._secret_box.decrypt_all(tx)
            except SettingsRefused as refused:
                sealed = str(refused)
        known = await tools.list_all(tx)
        given = await grants.list_all(tx)
        return RegistryRows(
            await revisions.read_all(tx), tuple(found), tuple(known), tuple(given), secrets, sealed
        )

    def _assemble(self, rows: RegistryRows) -> RegistryState:
        others = [one for one in rows.sources if one.kind != "file"]
        supplies = self._source_loader.load_sources(others, rows.secrets)
        self._troubles = self._source_loader.list_troubles()
        return assemble(
            self.builtin_tools, [*self._build_file_tools(rows), *supplies], rows.tools, now=time.time()
        )

    def _build_file_tools(self, rows: RegistryRows) -> list[SourceTools]:
        loaded = {file.name: file for file in self._loaded_folder.files}
        known = [one for one in rows.sources if one.kind == "file"]
        found = []
        for source in (*known, *self._find_new_files(rows)):
            file = loaded.get(source.name)
            if file is None:
                found.append(SourceTools(source, trouble=self._loaded_folder.refusal_reason or FILE_REMOVED))
            else:
                found.append(SourceTools(source, file.tools, file.trouble))
        return found

    def _find_new_files(self, rows: RegistryRows) -> list[Source]:
        """Files that have no row yet."""
        known = {one.name for one in rows.sources}
        folder = self._settings.folder or Path()
        now = time.time()
        fresh = [file.name for file in self._loaded_folder.files if file.name not in known]
        return [Source(name, "file", str(folder / name), added_at=now) for name in fresh]

    async def _store_listing(self, name: str, listing: "McpToolListing") -> None:
        """A server lists other tools than it did: what is new or changed waits for an admin."""

        async def write() -> bool:
            async with self._database.transaction() as tx:
                source = await sources.find(tx, name)
                told = [one.as_json() for one in listing.definitions]
                if source is None or source.options.get("listing") == told:
                    return False
                await sources.put(tx, replace(source, options={**source.options, "listing": told}))
            return True

        if await retry_until_available(write):
            await self._on_listing_stored()
