"""The tools there are now, who may use which, and what a conversation is offered.

Built once. Code on the way of a message reads it without waiting; changes in the database, in files or at a
server are applied in the background.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bot.agent.tool_search import META_TOOL_NAMES, SearchableTools, pick_tools
from bot.db.commit_watch import CommitWatch, compute_seconds_to_look
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.db.revisions import FILES
from bot.db.tools.grants import Grant
from bot.domain import NotifyAdmins
from bot.errors import StoreUnavailable
from bot.tool_registry.assembly import RegistryState, build_missing_tool
from bot.tool_registry.changes import build_notices
from bot.tool_registry.grants import Permissions
from bot.tool_registry.loader import DEFAULT_TOOL_SETTINGS, RegistryLoader, ToolSettings
from bot.tool_registry.sources import OfferSignIn, offer_nothing
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import ENGLISH, Translatable
from tools.base import Tool
from tools.builtin.ask import ask
from tools.builtin.look_back import look_back
from tools.builtin.notes import recall
from tools.threads import run_in_thread

if TYPE_CHECKING:
    from tools.mcp.definitions import McpToolListing

POLL_SECONDS = 2.0  # between looks for changes that another process made
MAX_CACHED_TOOLBOXES = 256  # where there are many tools, each conversation may have its own


_TOOLS_OF_CHATS = frozenset({ask.name, look_back.name, recall.name})
"""They ask in a chat, or read what was said there before."""

log = logging.getLogger(__name__)


async def _notify_nobody(subject: str, text: Translatable) -> None:
    """Without a feed for admins the log is enough."""


@dataclass(frozen=True, slots=True)
class _IndexedTools:
    """Who may use which tools, and those of admins and of people without a grant, ready to be searched."""

    permissions: Permissions
    all_tools: SearchableTools
    members_tools: SearchableTools


class ToolRegistry:
    """The built-in and registered tools; `tools` are those that can be used now, by name.

    `is_admin` says who is an admin, `notify_admins` reaches their feed. `on_members_changed` is called when
    conversations of people without a grant of their own begin with other tools than before; code that wants
    to know assigns a function to it.
    """

    def __init__(
        self,
        database: Database,
        builtin_tools: Iterable[Tool],
        is_admin: Callable[[int], bool],
        settings: ToolSettings = DEFAULT_TOOL_SETTINGS,
        notify_admins: NotifyAdmins = _notify_nobody,
        offer_sign_in: OfferSignIn = offer_nothing,
    ) -> None:
        self.on_members_changed: Callable[[], None] = lambda: None
        self._loader = RegistryLoader(database, builtin_tools, settings, self, offer_sign_in)
        self._max_prompt_tokens = settings.max_prompt_tokens
        self._commits = CommitWatch(settings.database_file)
        self._is_admin = is_admin
        self._notify_admins = notify_admins
        self._refresh_lock = asyncio.Lock()
        self._look_requested = asyncio.Event()
        self._revisions: Mapping[str, int] = {}
        sorted_tools = sorted(self._loader.builtin_tools, key=lambda tool: tool.name)
        state = RegistryState({tool.name: tool for tool in sorted_tools}, {})
        self._all_tools = SearchableTools(())
        self._apply(state, _index_tools(state, (), self._all_tools, self._max_prompt_tokens))

    def get(self, name: str) -> Tool | None:
        """Return a tool that can be used now: enabled and not suspended.

        An admin's own rule replaces the tool's.
        """
        return self.tools.get(name)

    def is_known(self, name: str) -> bool:
        """Tell whether there is a tool of this name, though it may be unavailable."""
        return name in self.tools or name in self._unavailable_tools or name in META_TOOL_NAMES

    def is_unavailable(self, name: str) -> bool:
        """Tell whether a tool cannot be used now; prompts that began with it may name it."""
        return name not in self.tools and name not in META_TOOL_NAMES

    def can_use(self, name: str, person: int, chat: int) -> bool:
        """Tell whether this person may use this tool in this chat now.

        Everybody may use the tools that search, for they find only what that person may use.
        """
        if name in META_TOOL_NAMES:
            return True
        if name not in self.tools:
            return False
        return self._permissions.can_use(name, person, chat) or self._is_admin(person)

    def get_searchable_tools(self, person: int, chat: int) -> SearchableTools:
        """Return the tools somebody may use in a chat, the same object for the same tools.

        In a group these are the tools of everybody there; what one of them may use beyond that is not named
        to all.
        """
        grantee = person if person == chat else 0
        is_all = grantee != 0 and self._is_admin(grantee)
        return self._make_searchable(
            name for name in self.tools if is_all or self._permissions.can_use(name, grantee, chat)
        )

    def _make_searchable(self, tool_names: Iterable[str]) -> SearchableTools:
        """Return these tools, the same object for the same names."""
        names = tuple(tool_names)
        if names not in self._searchable_tools:
            self._searchable_tools[names] = SearchableTools(self.tools[name] for name in names)
        return self._searchable_tools[names]

    def select_tool_names(
        self, person: int, chat: int, texts: Sequence[str], recent_names: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Choose the tools to offer in a conversation that a person begins now in a chat with these texts.

        `recent_names` are tools that were used there recently, the newest first.
        """
        return pick_tools(
            self.get_searchable_tools(person, chat), texts, recent_names, self._max_prompt_tokens
        )

    def build_toolbox(self, names: Iterable[str], searchable_tools: SearchableTools | None = None) -> Toolbox:
        """Return the tools of these names, the same object for the same names.

        Tools that are unavailable stay named in it, so that a prompt stays as it began, and say so when they
        are called; those that do not exist any more are left out. All others of `searchable_tools` can be
        found and used.
        """
        key = tuple(names), searchable_tools
        if key in self._toolboxes:
            return self._toolboxes[key]
        known = {**self._unavailable_tools, **self.tools}
        if searchable_tools is not None:
            known.update((tool.name, tool) for tool in searchable_tools.meta_tools)
        if len(self._toolboxes) >= MAX_CACHED_TOOLBOXES:
            del self._toolboxes[next(iter(self._toolboxes))]
        toolbox = Toolbox((known[name] for name in key[0] if name in known), searchable_tools)
        self._toolboxes[key] = toolbox
        return toolbox

    def extend_toolbox(self, toolbox: Toolbox, called_names: Iterable[str]) -> Toolbox:
        """Return the toolbox of a turn that continues: with the tools it called, whatever became of them."""
        missing = [name for name in dict.fromkeys(called_names) if name not in toolbox.tools]
        if not missing:
            return toolbox
        return toolbox.with_callable(
            self.tools.get(name) or self._unavailable_tools.get(name) or build_missing_tool(name)
            for name in missing
        )

    def build_conversation_toolbox(
        self,
        person: int,
        chat: int,
        texts: Sequence[str],
        names: tuple[str, ...] | None,
        recent_names: Iterable[str] = (),
    ) -> Toolbox:
        """Return the tools of a conversation whose prompt offers these names.

        Without `names`, the conversation begins now, and what it is offered is chosen.
        """
        if names is None:
            names = self.select_tool_names(person, chat, texts, recent_names)
        searchable_tools = None
        if set(names) >= META_TOOL_NAMES:
            searchable_tools = self.get_searchable_tools(person, chat)
        return self.build_toolbox(names, searchable_tools)

    def build_guest_toolbox(self, texts: Sequence[str], names: tuple[str, ...] | None) -> Toolbox:
        """Return the tools of a conversation in a chat of others: those of everybody that change nothing.

        `names`: as in build_conversation_toolbox.
        """
        members_tools = self.get_searchable_tools(0, 0).tools.values()
        searchable_tools = self._make_searchable(tool.name for tool in members_tools if _suits_guests(tool))
        if names is None:
            names = pick_tools(searchable_tools, texts, (), self._max_prompt_tokens)
        return self.build_toolbox(names, searchable_tools if set(names) >= META_TOOL_NAMES else None)

    def make_toolbox_builder(self, chat: int) -> Callable[[tuple[str, ...] | None], Toolbox]:
        """Return a function that builds a chat's toolbox from offered names, for use outside any turn."""
        return partial(self.build_conversation_toolbox, chat, chat, ())

    def build_member_toolbox(self) -> Toolbox:
        """Return what conversations of people without a grant of their own are offered."""
        return self.build_conversation_toolbox(0, 0, (), None)

    def build_largest_toolbox(self) -> Toolbox:
        """Return about the largest toolbox that a prompt may have to hold."""
        names = pick_tools(self._all_tools, (), self.tools, self._max_prompt_tokens)
        return self.build_toolbox(names, self._all_tools if self.needs_tool_search else None)

    async def load(self) -> None:
        """Load the files and what is registered; once, before the first message is answered."""
        for line in await self._loader.load_files():
            log.warning("%s", line, extra={"action": "tools.refused"})
        await self.refresh()

    async def run(self) -> None:
        """Apply what other processes change, and keep the connections to servers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._loader.source_loader.run(), name="tool servers")
            while True:
                await self._wait_for_next_look()
                try:
                    await self._check_for_changes()
                except StoreUnavailable:
                    continue
                except Exception:  # the gateway continues with the tools it has
                    log.exception(
                        "what is registered could not be taken over", extra={"action": "tools.broken"}
                    )

    def wake(self) -> None:
        """Look for changes now: another process has just made one."""
        self._look_requested.set()

    async def _wait_for_next_look(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(compute_seconds_to_look(POLL_SECONDS)):
                await self._look_requested.wait()
        self._look_requested.clear()

    async def reload_files(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR again, and refresh; return what went wrong, and the tools, by file."""
        troubles = await self._loader.load_files()
        await self.refresh()
        return (*troubles, *await self._loader.describe_files())

    def end_person(self, person: int) -> None:
        """End the programs of somebody who lost access, and delete their homes."""
        self._loader.source_loader.end_person(person)

    async def refresh_listings(self) -> tuple[str, ...]:
        """Have all servers list their tools again; return what went wrong, a line each.

        It may take a minute.
        """
        return await self._loader.source_loader.refresh_listings()

    async def store_listing(self, server: str, listing: "McpToolListing") -> None:
        """Store what a server lists; if it differs, apply it."""
        if await self._loader.store_listing(server, listing):
            await retry_until_available(self.refresh)

    async def refresh(self) -> None:
        """Apply what is registered now; turns that run keep the tools they have."""
        async with self._refresh_lock:
            rows, state = await self._loader.refresh()
            self._revisions = rows.revisions
            definitions_before = self._member_definitions
            indexed = await run_in_thread(
                _index_tools, state, rows.grants, self._all_tools, self._max_prompt_tokens
            )
            self._apply(state, indexed)
        if self._member_definitions != definitions_before:
            self.on_members_changed()
        for subject, text in build_notices(rows, state):
            await self._notify(subject, text)

    @property
    def _member_definitions(self) -> Sequence[Mapping[str, Any]]:
        """What conversations of members begin with, as it is sent to the endpoint."""
        return self.build_member_toolbox().definitions

    async def _check_for_changes(self) -> None:
        with self._commits.look() as is_written:
            if is_written or self._loader.source_loader.has_trouble_changed:
                await self._apply_changes()

    async def _apply_changes(self) -> None:
        current = await self._loader.load_revisions()
        if current.get(FILES) != self._revisions.get(FILES):
            await self.reload_files()
        elif current != self._revisions or self._loader.source_loader.has_trouble_changed:
            await self.refresh()

    def _apply(self, state: RegistryState, indexed: _IndexedTools) -> None:
        """Put what was loaded into effect, and forget every toolbox built before."""
        self.tools: Mapping[str, Tool] = MappingProxyType(dict(state.tools))
        self._unavailable_tools = state.unavailable_tools
        self._permissions = indexed.permissions
        self._toolboxes: dict[tuple[tuple[str, ...], SearchableTools | None], Toolbox] = {}
        self._all_tools = indexed.all_tools
        self.needs_tool_search = not indexed.all_tools.can_fit(self._max_prompt_tokens)
        self._searchable_tools = {
            tuple(searchable.tools): searchable for searchable in (indexed.members_tools, indexed.all_tools)
        }

    async def _notify(self, subject: str, text: Translatable) -> None:
        log.warning("%s", text(ENGLISH), extra={"action": "tools.news", "subject": subject})
        await retry_until_available(lambda: self._notify_admins(subject, text))


def _suits_guests(tool: Tool) -> bool:
    """Tell whether a tool changes nothing, asks nobody, and reads nothing that the chat said before."""
    changes = tool.changes and not tool.rule.only_reads
    return not changes and tool.rule.ask == "never" and tool.name not in _TOOLS_OF_CHATS


def _index_tools(
    state: RegistryState, grants: Iterable[Grant], all_before: SearchableTools, max_prompt_tokens: int
) -> _IndexedTools:
    """Compute what a prompt is chosen by; of hundreds of tools it takes a while, so in a thread.

    Where no tool has changed, what was computed of all before holds on.
    """
    permissions = Permissions(state.tools.values(), grants)
    all_tools = all_before
    if dict(state.tools) != dict(all_before.tools):
        all_tools = SearchableTools(state.tools.values())
    members_tools = SearchableTools(
        tool for name, tool in state.tools.items() if permissions.can_use(name, 0, 0)
    )
    if members_tools.tools == all_tools.tools:
        members_tools = all_tools
    for searchable in (all_tools, members_tools):
        if not searchable.can_fit(max_prompt_tokens):
            _ = searchable.tool_index  # computed now
    return _IndexedTools(permissions, all_tools, members_tools)
