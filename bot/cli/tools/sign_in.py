"""Signs in to MCP servers on the machine: prints the link, and takes what its page sends back.

A browser on this machine brings it to a listener on loopback; from elsewhere its address is pasted.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator

import typer

from bot.cli.tools.session import ToolsSession
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Lane
from bot.errors import ChangeRefused
from bot.http_server import serve
from bot.monitoring.sign_in_page import build_sign_in_app
from bot.tool_registry.add_source import extend_source, register_source
from bot.tool_registry.formatting import format_add_result
from bot.tool_registry.previews import SourcePreview, preview_signed_in
from bot.tool_registry.secret_references import MissingSecret
from bot.tool_registry.sign_in_flows import (
    LOOPBACK_SIGN_IN_PORT,
    LOOPBACK_SIGN_IN_URL,
    SIGN_IN_SECONDS,
    SignInRequest,
    run_sign_in,
)
from bot.tool_registry.sign_ins import UnsealedSignIn, store_sign_in
from bot.translations.translator import ENGLISH
from bot.usage.plain_text import escape_for_terminal
from tools.base import ToolError
from tools.mcp.sign_in import SignIn, SignInAnswer, find_state, parse_answer


async def sign_in(session: ToolsSession, name: str) -> list[str]:
    """Sign in to a source, for the first time or again; return the lines to print. Raises ChangeRefused."""
    async with session.database.read_transaction() as tx:
        source = await sources.find(tx, name)
    if source is None or source.kind != "mcp_http":
        raise ChangeRefused(f"There is no MCP server with a URL called {name[:60]}.")
    kept = await _sign_in_here(session, source)
    preview = None
    if not source.options.get("listing"):
        preview = await _preview(session, source, kept)
    lines = [f"You're signed in to {name}."]
    async with session.open_action() as action:
        await store_sign_in(action, session.secret_box, name, kept.sign_in)
        if preview is not None:
            lines += format_add_result(ENGLISH, await extend_source(action, preview))
    return [*lines, *_format_warnings(preview)]


async def sign_in_and_add(
    session: ToolsSession, source: Source, selected_names: tuple[str, ...]
) -> list[str]:
    """Add a source that wants a sign-in; without one nothing is added. Raises ChangeRefused."""
    kept = await _sign_in_here(session, source)
    preview = await _preview(session, source, kept)
    async with session.open_action() as action:
        added = await register_source(action, preview, selected_names or None)
        await store_sign_in(action, session.secret_box, source.name, kept.sign_in)
    return [
        f"You're signed in to {source.name}.",
        *format_add_result(ENGLISH, added),
        *_format_warnings(preview),
    ]


async def _preview(session: ToolsSession, source: Source, kept: UnsealedSignIn) -> SourcePreview:
    secrets = await session.load_secrets()
    return await preview_signed_in(source, secrets, session.tool_settings.private_hosts, kept)


def _format_warnings(preview: SourcePreview | None) -> Iterator[str]:
    if preview is not None:
        yield from map(escape_for_terminal, preview.warnings)


async def _sign_in_here(session: ToolsSession, source: Source) -> UnsealedSignIn:
    session.secret_box.check_key()
    secrets = await session.load_secrets()
    dialog = _TerminalDialog(source)
    outcome: SignIn | Exception
    async with dialog.listen():
        try:
            outcome = await run_sign_in(
                source,
                secrets,
                session.tool_settings.private_hosts,
                LOOPBACK_SIGN_IN_URL,
                dialog,
            )
        except (ToolError, MissingSecret, ValueError) as error:
            outcome = error
    if isinstance(outcome, Exception):
        raise ChangeRefused(f"Not signed in to {source.name}. {outcome}")
    return UnsealedSignIn(outcome)


class _TerminalDialog:
    """Prints the link of one sign-in; its answer comes by the browser, or from somebody who pastes it."""

    def __init__(self, source: Source) -> None:
        self._source_name = source.name
        self._request = SignInRequest(source, {}, 0, "the owner of this machine", Lane(0))
        self._state = ""
        self._answer: asyncio.Future[SignInAnswer] = asyncio.get_running_loop().create_future()

    async def show_link(self, link: str) -> None:
        self._state = find_state(link)
        typer.echo(f"{self._source_name} wants you to sign in. Open this page in your browser:\n\n{link}\n")
        typer.echo("If it ends at a page that does not load, paste the whole address of that page here:")

    async def wait_for_answer(self) -> SignInAnswer:
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                return await self._answer
        except TimeoutError:
            raise ToolError("The link was not used in time.") from None

    def find_request(self, state: str) -> SignInRequest | None:
        """Return this sign-in, if it is the one of this state and waits."""
        return self._request if state == self._state and not self._answer.done() else None

    def receive(self, answer: SignInAnswer) -> bool:
        """Take an answer; False if it is not for this sign-in."""
        if answer.state != self._state or self._answer.done():
            return False
        self._answer.set_result(answer)
        return True

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        """Listen on loopback, if the port is free, and to the terminal, while the block runs."""
        async with contextlib.AsyncExitStack() as stack:
            with contextlib.suppress(OSError):
                app = build_sign_in_app(self)
                await stack.enter_async_context(serve(app, port=LOOPBACK_SIGN_IN_PORT))
            stack.enter_context(self._read_pasted())
            yield

    @contextlib.contextmanager
    def _read_pasted(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def take_line() -> None:
            line = sys.stdin.readline()
            if not line:
                loop.remove_reader(sys.stdin)
                return
            answer = parse_answer(line)
            if answer is None or not self.receive(answer):
                typer.echo("This is not the address that this sign-in leads to. Paste it once more:")

        try:
            loop.add_reader(sys.stdin, take_line)
        except (OSError, ValueError):  # no terminal and no pipe
            yield
            return
        try:
            yield
        finally:
            loop.remove_reader(sys.stdin)
