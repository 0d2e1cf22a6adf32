"""Tool tasks of sign-ins at MCP servers: give an admin the link, and add the tools once that was used."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.chat.actions import build_part, count_utf16_units
from bot.chat.commands.tool_tasks import FinishTask, HandleTask, ToolTask, add_tool_order, finish_with
from bot.chat.commands.tool_text import build_parts
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues.item_bodies import ToolOrder
from bot.db.retry import retry_until_available
from bot.db.tools import sources
from bot.db.tools.audit import Actor
from bot.db.tools.secrets import name_sign_in
from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.domain import Button, Part
from bot.errors import ChangeRefused, SettingsRefused
from bot.tool_registry.add_source import extend_source
from bot.tool_registry.admin_actions import begin_action
from bot.tool_registry.formatting import format_add_result
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.previews import preview_signed_in
from bot.tool_registry.secrets import SecretBox
from bot.tool_registry.sign_in_flows import (
    LOOPBACK_SIGN_IN_URL,
    SIGN_IN_ENDED,
    SIGN_IN_SECONDS,
    SignInFlows,
    SignInRequest,
)
from bot.tool_registry.sign_ins import SealedSignIn, store_sign_in
from bot.tool_registry.tool_info import BuiltinTools
from bot.translations.translator import Translator, translatable
from bot.usage.plain_text import escape_for_terminal
from tools.base import ToolError
from tools.mcp.sign_in import SignIn

MAX_LINK_CHARS = 2000  # of a link behind a word; a longer one is written out
_MINUTES = round(SIGN_IN_SECONDS / 60)
PASTE_HINT = translatable(
    "Your browser then shows a page that doesn't load. Copy its whole address and send it to me. I'll use "
    "it and delete your message."
)


@dataclass(frozen=True, slots=True)
class ToolRights:
    """Who is an admin, by the settings too, and whether somebody may use a tool in a chat."""

    is_admin: Callable[[int], bool]
    can_use: Callable[[str, int, int], bool]
    configured_admins: Collection[int]


class SignInTasks:
    """The handlers of these tasks, and what ends a sign-in."""

    def __init__(
        self,
        database: Database,
        tool_settings: ToolSettings,
        builtin_tools: BuiltinTools,
        rights: ToolRights,
    ) -> None:
        self._rights = rights
        self._database = database
        self._tool_settings = tool_settings
        self._builtin_tools = builtin_tools
        self._secret_box = SecretBox(tool_settings.secret_keys)
        self.flows = SignInFlows(tool_settings.private_hosts, tool_settings.sign_in_url, self)

    def get_handlers(self) -> Mapping[str, HandleTask]:
        """Return the handlers by the kind of task."""
        return {"signin": self._offer_sign_in, "signed": self._add_tools}

    async def begin(self, task: ToolTask, source: Source) -> Part:
        """Begin a sign-in; return the message with its link. Raises ChangeRefused or SettingsRefused."""
        self._secret_box.check_key()
        async with self._database.read_transaction() as tx:
            secrets = await self._secret_box.decrypt_all(tx)
        # The account that gives the listing may have been that of somebody who was removed.
        fills_listing = self._rights.is_admin(task.order.person) and name_sign_in(source.name) not in secrets
        is_personal = _is_personal(source, task.order.person) and not fills_listing
        link = await self.flows.start(
            SignInRequest(source, secrets, task.order.person, task.order.name, task.order.lane, is_personal)
        )
        return build_link_part(task.translate, source.name, link, self._tool_settings.sign_in_url)

    async def _offer_sign_in(self, task: ToolTask) -> FinishTask:
        source = await self._load_source(task.order.words.strip())
        if not self._can_sign_in(task, source):
            raise ChangeRefused(
                "You can't sign in to {source} yet: an admin has to give you access to its tools.",
                source=source.name,
            )
        part = await self.begin(task, source)

        async def finish(_: Transaction) -> tuple[Part, ...]:
            return (part,)

        return finish

    def _can_sign_in(self, task: ToolTask, source: Source) -> bool:
        if self._rights.is_admin(task.order.person):
            return True
        names = [definition["name"] for definition in source.options.get("listing", ())]
        is_granted = any(
            self._rights.can_use(name, task.order.person, task.order.lane.chat) for name in names
        )
        return _is_personal(source, task.order.person) and is_granted

    async def store_outcome(self, request: SignInRequest, outcome: SignIn | ToolError) -> None:
        """Seal what a sign-in gave, and leave a task that tells the admin."""

        async def write() -> None:
            async with self._database.transaction() as tx:
                error = await self._store_sign_in(tx, request, outcome)
                await _queue_ended(tx, request, error)

        await retry_until_available(write)

    async def _store_sign_in(
        self, tx: Transaction, request: SignInRequest, outcome: SignIn | ToolError
    ) -> str:
        """Store a sign-in; return why there is none."""
        if isinstance(outcome, ToolError):
            return str(outcome)
        role = await people.load_role(tx, request.person, self._rights.configured_admins)
        if role != "admin" and (role != "member" or not request.is_personal):
            return SIGN_IN_ENDED
        translate = await people.find_translator(tx, request.person)
        action = await begin_action(tx, Actor(request.person, "telegram"), time.time(), self._builtin_tools)
        try:
            await store_sign_in(action, self._secret_box, request.source.name, outcome, request.account)
        except (ChangeRefused, SettingsRefused) as refused:
            return refused.explain(translate)
        return ""

    async def _add_tools(self, task: ToolTask) -> FinishTask:
        """Say how a sign-in ended; add the tools of a source that waited for its first one."""
        translate = task.translate
        is_personal = task.order.is_personal
        if error := task.order.error:
            hint = translate("For another link: /tools signin {source}", source=task.order.words)
            if is_personal:
                hint = translate("Ask me again for what you wanted, and I'll send you another button.")
            outcome = translate("Not signed in to {source}.", source=task.order.words)
            return finish_with(f"{outcome} {escape_for_terminal(error)}", hint)
        source = await self._load_source(task.order.words)
        signed_in = translate("You're signed in to {source}.", source=source.name)
        if is_personal:
            hint = translate("I'll use your account for what I do there. Now ask me again.")
            return finish_with(signed_in, hint)
        if source.options.get("listing"):
            return finish_with(signed_in)
        async with self._database.read_transaction() as tx:
            secrets = await self._secret_box.decrypt_all(tx)
        store = SealedSignIn(self._database, self._secret_box, source)
        preview = await preview_signed_in(source, secrets, self._tool_settings.private_hosts, store)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            action = await begin_action(tx, task.actor, time.time(), self._builtin_tools)
            added = format_add_result(translate, await extend_source(action, preview))
            return build_parts([signed_in, *added, *map(escape_for_terminal, preview.warnings)])

        return finish

    async def _load_source(self, name: str) -> Source:
        async with self._database.read_transaction() as tx:
            source = await sources.find(tx, name)
        if source is None or source.kind != "mcp_http":
            raise ChangeRefused("There is no MCP server with a URL called {name}.", name=name[:60])
        return source


def _is_personal(source: Source, person: int) -> bool:
    """Whether this person signs in with an account of their own."""
    return "personal" in source.options and source.options["personal"] != person


async def _queue_ended(tx: Transaction, request: SignInRequest, error: str) -> None:
    order = ToolOrder(
        "signed",
        request.person,
        request.name,
        request.lane,
        words=request.source.name,
        error=error,
        is_personal=request.is_personal,
    )
    await add_tool_order(tx, order, now=time.time())


def build_link_part(translate: Translator, source_name: str, link: str, redirect_url: str) -> Part:
    """Build the message with the link of a sign-in, and what to do after it."""
    label = translate("the page at {host}", host=urlsplit(link).hostname)
    text = translate(
        "{source} wants you to sign in. Open {page} within {minutes} minutes.",
        source=source_name,
        page=label,
        minutes=_MINUTES,
    )
    before = text[: text.index(label)]
    if redirect_url == LOOPBACK_SIGN_IN_URL:
        text += f" {translate(PASTE_HINT)}"
    if len(link) > MAX_LINK_CHARS:
        return Part(f"{text}\n\n{link}")
    entity = {
        "type": "text_link",
        "offset": count_utf16_units(before),
        "length": count_utf16_units(label),
        "url": link,
    }
    return Part(text, (entity,))


def build_offer(translate: Translator, source_name: str) -> Part:
    """Build the message that offers a person to sign in with an account of their own."""
    text = translate(
        "{source} works with your own account. Sign in once, then ask me again.", source=source_name
    )
    button = Button(translate("Sign in to {source}", source=source_name), f"signin:{source_name}")
    return build_part(text, (button,))
