"""The tools the house has now, who may use which, and what a conversation is offered.

Built once. Whoever is on the way of a message asks it and waits for nothing; what changed in the database, in
files or at a server is taken over beside that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from bot.agent.tool_search import META_TOOL_NAMES, SearchableTools, pick_tools
from bot.agent.toolbox import Toolbox
from bot.db.engine import Database
from bot.db.retry import retry_until_available
from bot.db.revisions import FILES
from bot.db.tools.grants import Grant
from bot.errors import StoreUnavailable
from bot.tool_registry.assembly import RegistryState, build_missing_tool
from bot.tool_registry.change_notices import build_notices
from bot.tool_registry.loader import DEFAULT_TOOL_SETTINGS, RegistryLoader, ToolSettings
from bot.tool_registry.permissions import Permissions
from tools.base import Tool

POLL_SECONDS = 2.0  # seconds between looks for changes that another process made
MAX_CACHED_TOOLBOXES = (
    256  # toolboxes that are kept: where there are many tools, each conversation may have its own
)

NotifyAdmins = Callable[[str, str], Awaitable[None]]

log = logging.getLogger(__name__)


async def _notify_nobody(subject: str, text: str) -> None:
    """Where there is no feed, the log is enough."""


class ToolRegistry:
    """`own` are the house's own tools; `is_admin` says who is one, `tell` reaches the admins' feed.

    `members_changed` is called when conversations of people without a grant of their own begin with other
    tools than before; whoever wants to know puts a function there.
    """

    def __init__(
        self,
        database: Database,
        builtin_tools: Iterable[Tool],
        is_admin: Callable[[int], bool],
        settings: ToolSettings = DEFAULT_TOOL_SETTINGS,
        notify_admins: NotifyAdmins = _notify_nobody,
    ) -> None:
        self.on_members_changed: Callable[[], None] = lambda: None
        self._loader = RegistryLoader(database, builtin_tools, settings, self.refresh)
        self._max_prompt_tokens = settings.max_prompt_tokens
        self._is_admin = is_admin
        self._notify_admins = notify_admins
        self._refresh_lock = asyncio.Lock()
        self._revisions: Mapping[str, int] = {}
        ready = {tool.name: tool for tool in sorted(self._loader.builtin_tools, key=lambda tool: tool.name)}
        self._apply(RegistryState(ready, {}), ())

    def get(self, name: str) -> Tool | None:
        """A tool that can be used now: it is enabled, and not suspended. An admin's own rule stands in it."""
        return self.tools.get(name)

    def is_known(self, name: str) -> bool:
        """Whether there is a tool of this name, though it may rest."""
        return name in self.tools or name in self._unavailable_tools or name in META_TOOL_NAMES

    def is_unavailable(self, name: str) -> bool:
        """Whether a tool cannot be used now, though prompts that began with it name it."""
        return name not in self.tools and name not in META_TOOL_NAMES

    def can_use(self, name: str, person: int, chat: int) -> bool:
        """Whether this person may use this tool in this chat now. All may search what they may use."""
        return name in META_TOOL_NAMES or (
            name in self.tools and (self._permissions.can_use(name, person, chat) or self._is_admin(person))
        )

    def get_searchable_tools(self, person: int, chat: int) -> SearchableTools:
        """What somebody may use in a chat, the same object for the same tools.

        In a group these are the tools of everybody there; what one of them may use besides is not named to
        all.
        """
        alone = person if person == chat else 0
        is_all = alone and self._is_admin(alone)
        names = tuple(name for name in self.tools if is_all or self._permissions.can_use(name, alone, chat))
        if names not in self._searchable_tools:
            self._searchable_tools[names] = SearchableTools(self.tools[name] for name in names)
        return self._searchable_tools[names]

    def select_tool_names(
        self, person: int, chat: int, texts: Sequence[str], recent_names: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Names of the tools that a conversation is offered which a person begins now in a chat, with these
        texts.

        `recent` are tools that were used there of late, the newest first.
        """
        return pick_tools(
            self.get_searchable_tools(person, chat), texts, recent_names, self._max_prompt_tokens
        )

    def build_toolbox(self, names: Iterable[str], searchable_tools: SearchableTools | None = None) -> Toolbox:
        """The tools of these names, the same object for the same names. Those that rest are named in it
        still, so that a prompt stays as it began, and say so when they are called; those that are gone are
        left out.

        All others of the `shelf` can be found and used.
        """
        key = tuple(names), searchable_tools
        found = self._toolboxes.get(key)
        if found is None:
            doors = {tool.name: tool for tool in searchable_tools.meta_tools} if searchable_tools else {}
            there = {**self._unavailable_tools, **self.tools, **doors}
            if len(self._toolboxes) >= MAX_CACHED_TOOLBOXES:
                del self._toolboxes[next(iter(self._toolboxes))]
            found = self._toolboxes[key] = Toolbox(
                (there[name] for name in key[0] if name in there), searchable_tools
            )
        return found

    def extend_toolbox(self, toolbox: Toolbox, called_names: Iterable[str]) -> Toolbox:
        """The tools of a turn that goes on: what it has called is found again, whatever has become of it
        since.
        """
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
        """The tools of a conversation whose prompt offers these names; None: what one is offered that begins
        now.
        """
        if names is None:
            offered = self.select_tool_names(person, chat, texts, recent_names)
        else:
            offered = names
        return self.build_toolbox(
            offered, self.get_searchable_tools(person, chat) if set(offered) >= META_TOOL_NAMES else None
        )

    def make_toolbox_builder(self, chat: int) -> Callable[[tuple[str, ...] | None], Toolbox]:
        """The same, of a chat in which nobody asks now."""
        return partial(self.build_conversation_toolbox, chat, chat, ())

    def build_member_toolbox(self) -> Toolbox:
        """What conversations of people without a grant of their own are offered."""
        return self.build_conversation_toolbox(0, 0, (), None)

    def build_largest_toolbox(self) -> Toolbox:
        """About the most that a prompt may have to hold."""
        full = pick_tools(self._all_tools, (), self.tools, self._max_prompt_tokens)
        return self.build_toolbox(full, self._all_tools if self.needs_tool_search else None)

    @property
    def needs_tool_search(self) -> bool:
        """Whether there are more tools than a prompt has room for."""
        return not self._all_tools.can_fit(self._max_prompt_tokens)

    async def load(self) -> None:
        """Take over what is registered, and load the files; once, before the first message is answered."""
        for line in await self._loader.load_files():
            log.warning("%s", line, extra={"action": "tools.refused"})
        await self.refresh()

    async def run(self) -> None:
        """Notice what other processes change and keep the connections to servers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._loader.run(), name="tool servers")
            while True:
                await asyncio.sleep(POLL_SECONDS)
                try:
                    await self._check_for_changes()
                except StoreUnavailable as away:
                    log.warning("%s", away, extra={"action": "store.away"})
                except Exception:  # the house goes on with the tools it has
                    log.exception(
                        "what is registered could not be taken over", extra={"action": "tools.broken"}
                    )

    async def reload_files(self) -> tuple[str, ...]:
        """Load the files of TOOLS_DIR anew, and take over what is registered; what went wrong, a line each."""
        troubles = await self._loader.load_files()
        await self.refresh()
        return troubles

    async def refresh_listings(self) -> tuple[str, ...]:
        """Have all servers say anew what they offer; what went wrong, a line each. It may take a minute."""
        return await self._loader.refresh_listings()

    async def refresh(self) -> None:
        """Take over what is registered now; turns that run keep the tools they have."""
        async with self._refresh_lock:
            rows, standing = await self._loader.refresh()
            self._revisions = rows.revisions
            before = self._member_definitions
            self._apply(standing, rows.grants)
        if self._member_definitions != before:
            self.on_members_changed()
        for subject, text in build_notices(rows, standing):
            await self._notify(subject, text)

    @property
    def _member_definitions(self) -> Sequence[Mapping[str, Any]]:
        """What conversations of members begin with, as the endpoint is sent it."""
        return self.build_member_toolbox().definitions

    async def _check_for_changes(self) -> None:
        now = await self._loader.load_revisions()
        if now.get(FILES) != self._revisions.get(FILES):
            await self.reload_files()
        elif now != self._revisions or self._loader.has_trouble_changed:
            await self.refresh()

    def _apply(self, state: RegistryState, grants: Iterable[Grant]) -> None:
        self.tools: Mapping[str, Tool] = MappingProxyType(dict(state.tools))
        self._unavailable_tools = state.unavailable_tools
        self._permissions = Permissions(state.tools.values(), grants)
        self._toolboxes: dict[tuple[tuple[str, ...], SearchableTools | None], Toolbox] = {}
        self._all_tools = SearchableTools(self.tools.values())
        self._searchable_tools = {tuple(self.tools): self._all_tools}

    async def _notify(self, subject: str, text: str) -> None:
        log.warning("%s", text, extra={"action": "tools.news", "subject": subject})
        await retry_until_available(lambda: self._notify_admins(subject, text))
