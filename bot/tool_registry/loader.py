"""Loads what the registry consists of: rows, files, and what servers list; again whenever it changed.

Stores what sources were found to give, and what waits for an admin. The decisions are made in assembly.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.db import revisions
from bot.db.database_url import find_database_file
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.db.tools import grants, sources, tools
from bot.db.tools.grants import Grant
from bot.db.tools.sources import Source
from bot.db.tools.tools import StoredTool
from bot.db.transaction import Transaction
from bot.errors import SettingsRefused
from bot.settings import Settings, reveal
from bot.tool_registry.assembly import RegistryState, SourceTools, assemble
from bot.tool_registry.program_homes import find_homes_folder
from bot.tool_registry.python_files import LoadedFolder, load_folder
from bot.tool_registry.secrets import SecretBox
from bot.tool_registry.sign_in_flows import LOOPBACK_SIGN_IN_URL, SIGN_IN_PATH
from bot.tool_registry.sign_ins import SealedSignIn
from bot.tool_registry.sources import OfferSignIn, SourceLoader, offer_nothing
from tools.base import Tool
from tools.registry import discover
from tools.search.tool import choose_engine, make_search_tool
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.definitions import McpToolListing
    from tools.mcp.server import ListingStore

FILE_REMOVED = "it is not in TOOLS_DIR any more"
_REVISIONS = (revisions.TOOLS, revisions.FILES)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """What the settings say of tools.

    `folder` is TOOLS_DIR, `secret_keys` are the keys of secrets, `private_hosts` those that may be reached;
    `max_prompt_tokens` is what tools may take of a prompt; `homes` is the folder of the homes of programs.
    `sign_in_url` is where the page of a sign-in sends the browser back.
    `database_file` is watched for what other commands register; None: it is read at every look.
    """

    folder: Path | None = None
    secret_keys: tuple[str, ...] = ()
    private_hosts: frozenset[str] = frozenset()
    max_prompt_tokens: int = 2000
    homes: Path | None = None
    sign_in_url: str = LOOPBACK_SIGN_IN_URL
    database_file: Path | None = None


DEFAULT_TOOL_SETTINGS = ToolSettings()


def build_tool_settings(settings: Settings) -> ToolSettings:
    """Build it from the settings; tools take at most half of a small prompt."""
    keys = tuple(key.get_secret_value() for key in settings.secrets_key)
    max_prompt_tokens = min(DEFAULT_TOOL_SETTINGS.max_prompt_tokens, settings.prompt_budget // 2)
    sign_in_url = LOOPBACK_SIGN_IN_URL
    if settings.public_url is not None:
        sign_in_url = f"{settings.public_url}{SIGN_IN_PATH}"
    return ToolSettings(
        settings.tools_dir,
        keys,
        settings.tools_private_hosts,
        max_prompt_tokens,
        find_homes_folder(settings.database_url),
        sign_in_url,
        find_database_file(settings.database_url),
    )


def build_builtin_tools(settings: Settings) -> dict[str, Tool]:
    """The gateway's own tools by name; those that search use the engine of the settings."""
    search_engine = choose_engine(settings.search_url, reveal(settings.search_key))
    search_tools = [] if search_engine is None else [make_search_tool(search_engine)]
    return {tool.name: tool for tool in discover(search_tools)}


@dataclass(frozen=True, slots=True)
class RegistryRows:
    """What the database holds at one moment; `secrets_error` says why secrets cannot be decrypted."""

    revisions: Mapping[str, int]
    sources: tuple[Source, ...]
    tools: tuple[StoredTool, ...]
    grants: tuple[Grant, ...]
    secrets: Mapping[str, str] = field(default_factory=dict)
    secrets_error: str | None = None


class RegistryLoader:
    """Reads rows, files and, by its `source_loader`, servers; `listing_store` is told what a server lists."""

    def __init__(
        self,
        database: Database,
        builtin_tools: Iterable[Tool],
        settings: ToolSettings,
        listing_store: "ListingStore | None",
        offer_sign_in: OfferSignIn = offer_nothing,
    ):
        self.builtin_tools = tuple(builtin_tools)
        self._database = database
        self._settings = settings
        self._loaded_folder = LoadedFolder()
        self._secret_box = SecretBox(settings.secret_keys)
        self.source_loader = SourceLoader(
            settings.private_hosts,
            listing_store,
            settings.homes,
            partial(SealedSignIn, database, self._secret_box),
            offer_sign_in,
        )

    async def load_files(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR again; return what went wrong, a line each."""
        if self._settings.folder is None:
            return ()
        self._loaded_folder = await run_in_thread(load_folder, self._settings.folder, self.builtin_tools)
        lines = (self._loaded_folder.refusal_reason, *(file.trouble for file in self._loaded_folder.files))
        return tuple(line for line in lines if line is not None)

    async def describe_files(self) -> tuple[str, ...]:
        """Return the tools of each file that was loaded, or why they cannot be used, a line each file."""
        async with self._database.read_transaction() as tx:
            stored = await sources.list_all(tx)
        troubles = {source.name: source.trouble for source in stored if source.kind == "file"}
        return tuple(
            f"{file.name}: {troubles.get(file.name) or ', '.join(tool.name for tool in file.tools)}"
            for file in self._loaded_folder.files
            if file.trouble is None
        )

    async def load_revisions(self) -> Mapping[str, int]:
        """Read the current revisions of tools; one cheap query."""
        async with self._database.read_transaction() as tx:
            return await revisions.read(tx, _REVISIONS)

    async def refresh(self) -> tuple[RegistryRows, RegistryState]:
        """Read everything again, and store what has changed.

        What is stored was found before the transaction, which others wait for: if they changed something
        meanwhile, all is read once more.
        """
        while True:
            async with self._database.read_transaction() as tx:
                rows = await self._load_rows(tx)
            state = await self._assemble(rows)
            if await self._store_changes(rows, state):
                return rows, state

    async def _store_changes(self, rows: RegistryRows, state: RegistryState) -> bool:
        """Store what was found in these rows; False if they have changed since."""
        new_files = self._find_new_files(rows)
        if not (state.rows_to_store or state.names_to_delete or state.trouble_changes or new_files):
            return True
        async with self._database.transaction() as tx:
            await tools.lock(tx)
            if await revisions.read(tx, _REVISIONS) != rows.revisions:
                return False
            for source in new_files:
                await sources.put(tx, source)
            for row in state.rows_to_store:
                await tools.put(tx, row)
            if state.names_to_delete:
                await tools.remove(tx, list(state.names_to_delete))
            await sources.store_troubles(tx, state.trouble_changes)
        return True

    async def _load_rows(self, tx: Transaction) -> RegistryRows:
        source_rows = await sources.list_all(tx)
        secrets: Mapping[str, str] = {}
        secrets_error = None
        if source_rows:
            try:
                secrets = await self._secret_box.decrypt_all(tx)
            except SettingsRefused as refused:
                secrets_error = str(refused)
        return RegistryRows(
            sources=tuple(source_rows),
            tools=tuple(await tools.list_all(tx)),
            grants=tuple(await grants.list_all(tx)),
            revisions=await revisions.read(tx, _REVISIONS),
            secrets=secrets,
            secrets_error=secrets_error,
        )

    async def _assemble(self, rows: RegistryRows) -> RegistryState:
        remote = [source for source in rows.sources if source.kind != "file"]
        source_tools = [
            *self._build_file_tools(rows),
            *await self.source_loader.load_sources(remote, rows.secrets),
        ]
        return await run_in_thread(assemble, self.builtin_tools, source_tools, rows.tools, now=time.time())

    def _build_file_tools(self, rows: RegistryRows) -> list[SourceTools]:
        loaded = {file.name: file for file in self._loaded_folder.files}
        stored = [source for source in rows.sources if source.kind == "file"]
        file_tools = []
        for source in (*stored, *self._find_new_files(rows)):
            file = loaded.get(source.name)
            if file is None:
                reason = self._loaded_folder.refusal_reason or FILE_REMOVED
                file_tools.append(SourceTools(source, trouble=reason))
            else:
                file_tools.append(SourceTools(source, file.tools, file.trouble))
        return file_tools

    def _find_new_files(self, rows: RegistryRows) -> list[Source]:
        """Files that have no row yet."""
        stored_names = {source.name for source in rows.sources}
        folder = self._settings.folder or Path()
        now = time.time()
        return [
            Source(file.name, "file", str(folder / file.name), added_at=now)
            for file in self._loaded_folder.files
            if file.name not in stored_names
        ]

    async def store_listing(self, name: str, listing: "McpToolListing") -> bool:
        """Store what a server lists, and return whether it differs: a new tool then waits for an admin."""

        async def write() -> bool:
            async with self._database.transaction() as tx:
                await tools.lock(tx)
                source = await sources.find(tx, name)
                definitions = [definition.as_json() for definition in listing.definitions]
                if source is None or source.options.get("listing") == definitions:
                    return False
                await sources.put(tx, source.with_options(listing=definitions))
            return True

        return await retry_until_available(write)
