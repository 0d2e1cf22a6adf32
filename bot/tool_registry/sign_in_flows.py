"""Sign-ins under way in this process: from a link that somebody opens to the tokens that it gives.

Only memory: a gateway that stops forgets them, and the person asks for another link. What a page sends back
comes here from a browser, or in a message that is deleted as soon as it is read.
"""

import asyncio
import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bot.db.tools.sources import Source
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.tool_registry.secret_references import MissingSecret, fill_secrets
from bot.tool_registry.sources import build_location
from tools.base import ToolError
from tools.mcp.location import ServerUrl
from tools.mcp.sign_in import SignIn, SignInAnswer, SignInDialog, find_state
from tools.threads import run_in_thread

SIGN_IN_PATH = "/canvasgram/signin"
LOOPBACK_SIGN_IN_PORT = 8739
LOOPBACK_SIGN_IN_URL = f"http://127.0.0.1:{LOOPBACK_SIGN_IN_PORT}{SIGN_IN_PATH}"
"""Where nothing of the gateway listens: the address of the page that did not load is sent to it in a chat."""

SIGN_IN_ENDED = "the one who asked for it has no access any more."
SIGN_IN_SECONDS = 900.0  # from the link to what its page sends back

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SignInRequest:
    """Who signs in to which source, and where they asked; `secrets` are all secrets, by name.

    `is_personal`: with an account that is used for their calls only.
    """

    source: Source
    secrets: Mapping[str, str]
    person: int
    name: str
    lane: Lane
    is_personal: bool = False

    @property
    def account(self) -> int | None:
        """Whose the account is; None: it is for all."""
        return self.person if self.is_personal else None


class SignInStorage(Protocol):
    """Keeps what came of the sign-ins whose link was used."""

    async def store_outcome(self, request: SignInRequest, outcome: SignIn | ToolError) -> None:
        """Keep a sign-in, or tell who asked why there is none."""


class _ChatDialog:
    """A sign-in that goes on: its link is sent to a chat, and its answer comes from the page or the chat.

    It is in `by_state` from when its link was shown.
    """

    def __init__(self, request: SignInRequest, by_state: dict[str, "_ChatDialog"]) -> None:
        loop = asyncio.get_running_loop()
        self.request = request
        self.link: asyncio.Future[str] = loop.create_future()
        self.answer: asyncio.Future[SignInAnswer] = loop.create_future()
        self._by_state = by_state
        self._state = ""

    async def show_link(self, link: str) -> None:
        self._state = find_state(link)
        self._by_state[self._state] = self
        self.link.set_result(link)

    async def wait_for_answer(self) -> SignInAnswer:
        async with asyncio.timeout(SIGN_IN_SECONDS):
            return await self.answer

    def close(self) -> None:
        """Take no answer any more."""
        if self._by_state.get(self._state) is self:
            del self._by_state[self._state]


async def run_sign_in(
    source: Source,
    secrets: Mapping[str, str],
    private_hosts: frozenset[str],
    redirect_url: str,
    dialog: SignInDialog,
) -> SignIn:
    """Sign in to a source. Raises ToolError; ValueError or MissingSecret if it must not be called."""
    oauth = await run_in_thread(importlib.import_module, "tools.mcp.oauth")
    location = build_location(source, secrets, private_hosts)
    if not isinstance(location, ServerUrl) or location.has_key:
        raise ToolError(f"{source.name} has no sign-in.")
    client = None
    registered = fill_secrets(source.options.get("sign_in", {}), secrets)
    if "client_id" in registered:
        client = oauth.RegisteredClient(registered["client_id"], registered.get("client_secret"))
    sign_in: SignIn = await oauth.sign_in(location, redirect_url, dialog, client)
    return sign_in


class SignInFlows:
    """Runs them; `storage` keeps what came of each whose link was used."""

    def __init__(self, private_hosts: frozenset[str], redirect_url: str, storage: SignInStorage) -> None:
        self.redirect_url = redirect_url
        self._private_hosts = private_hosts
        self._storage = storage
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[tuple[str, int | None], asyncio.Task[None]] = {}
        self._waiting: dict[str, _ChatDialog] = {}

    async def run(self) -> None:
        """Let sign-ins go on until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            await asyncio.Event().wait()

    async def start(self, request: SignInRequest) -> str:
        """Begin a sign-in, in place of one to the same account; return the link. Raises ChangeRefused."""
        if self._group is None:
            raise ChangeRefused("I'm starting or stopping; ask again in a moment.")
        name = request.source.name
        key = name, request.account
        if (earlier := self._tasks.pop(key, None)) is not None:
            earlier.cancel()
        dialog = _ChatDialog(request, self._waiting)
        task = self._group.create_task(self._run_flow(dialog), name=f"sign in to {name}")
        self._tasks[key] = task
        try:
            return await dialog.link
        except (ToolError, ValueError) as error:
            raise ChangeRefused("{name}: {error}", name=name, error=error) from None

    def is_open(self, answer: SignInAnswer, person: int) -> bool:
        """Whether a sign-in of this person waits for this answer."""
        waiting = self._waiting.get(answer.state)
        return waiting is not None and waiting.request.person == person

    def find_request(self, state: str) -> SignInRequest | None:
        """Return whose sign-in waits for what has this state."""
        waiting = self._waiting.get(state)
        return None if waiting is None or waiting.answer.done() else waiting.request

    def end(self, person: int) -> None:
        """End the sign-ins that somebody has begun: what their pages send back is not taken any more."""
        for waiting in self._waiting.values():
            if waiting.request.person == person and not waiting.answer.done():
                waiting.answer.set_exception(ToolError(SIGN_IN_ENDED))

    def receive(self, answer: SignInAnswer) -> bool:
        """Take what a page sent back; False if no sign-in waits for it."""
        waiting = self._waiting.pop(answer.state, None)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_result(answer)
        return True

    async def _run_flow(self, dialog: _ChatDialog) -> None:
        request = dialog.request
        try:
            outcome = await self._sign_in(dialog)
        except asyncio.CancelledError:
            if not dialog.link.done():
                dialog.link.set_exception(ToolError("another sign-in was begun."))
            raise
        finally:
            dialog.close()
            key = request.source.name, request.account
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
        if not dialog.link.done():
            assert isinstance(outcome, ToolError)
            dialog.link.set_exception(outcome)
        elif dialog.answer.done():
            await self._storage.store_outcome(request, outcome)

    async def _sign_in(self, dialog: _ChatDialog) -> SignIn | ToolError:
        request = dialog.request
        try:
            return await run_sign_in(
                request.source,
                request.secrets,
                self._private_hosts,
                self.redirect_url,
                dialog,
            )
        except ToolError as error:
            return error
        except (ValueError, MissingSecret) as error:
            return ToolError(str(error))
        except Exception as error:  # noqa: BLE001 a stranger's server must not end the gateway
            # Without its text, which may repeat what was sent.
            fields = {"source": request.source.name, "error": type(error).__name__}
            log.warning("a sign-in failed unexpectedly", extra={"action": "sign_in.failed", **fields})
            return ToolError("it failed for a reason that is not known.")
