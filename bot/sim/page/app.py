"""The chat page of the demo: an ASGI app that shows one person's chat in the simulated Telegram and lets them
act.

Owns its secret address, who listens, and what a browser may send. Knows the simulator, nothing of the
gateway.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from bot.sim.page.guard import Guard
from bot.sim.page.shapes import Json, draft_shown, event_shown, message_shown
from bot.sim.telegram.server import BotApi, Person

FILES = Path(__file__).parent / "static"
MOST_BYTES = 64 * 1024
MOST_WAITING = 500  # events a browser may be behind before it is shown everything afresh
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Notice:
    """What stands at the top of the page: a line, what is simulated and what is real, how to go on from here."""

    line: str
    details: tuple[str, ...]
    command: str


@dataclass(eq=False)
class ChatPage:
    """One chat's page at `path`. `run` must be running for anything to move; `close` ends what browsers
    listen to.

    `opened` is called when the page is opened for the first time.
    """

    api: BotApi
    person: Person
    notice: Notice
    suggestions: Sequence[str] = ()
    opened: Callable[[], object] = lambda: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))

    def __post_init__(self) -> None:
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._accounts: dict[int, Json] = {}
        self._is_new = True
        routes = [
            Route("/", self._file),
            Route("/events", self._events),
            Route("/send", self._send, methods=["POST"]),
            Route("/tap", self._tap, methods=["POST"]),
            Route("/stop", self._stop, methods=["POST"]),
            Route("/{name}", self._file),
        ]
        pages = Starlette(routes=routes)
        pages.router.redirect_slashes = False  # it would redirect to an address without the token
        self.app: ASGIApp = Guard(pages, self.token)

    @property
    def path(self) -> str:
        """The page's path below the address it is served at."""
        return f"/{self.token}/"

    async def run(self) -> None:
        """Pass on what happens in the chat until cancelled."""
        with self.api.subscribe(self.person.id) as events:
            async for event in events:
                if event.kind == "lost":
                    self._tell("all", self._all())
                else:
                    self._tell(event.kind, event_shown(event, self.person.id))

    def close(self) -> None:
        """End every stream of events, for good."""
        for queue in self._listeners:
            queue.put_nowait(None)

    def account(self, message_id: int, shown: Json) -> None:
        """Show this account (lines and figures, see page/account.js) below a message."""
        self._accounts[message_id] = shown
        self._tell("account", {"id": message_id, **shown})

    def _all(self) -> Json:
        chat = self.person.chat
        return {
            "notice": {
                "line": self.notice.line,
                "details": self.notice.details,
                "command": self.notice.command,
            },
            "suggestions": self.suggestions,
            "commands": self.api.commands,
            "messages": [message_shown(one.raw, self.person.id, one.reactions) for one in chat.messages],
            "draft": draft_shown(chat.draft.as_data()) if chat.draft else None,
            "accounts": [{"id": message_id, **shown} for message_id, shown in self._accounts.items()],
        }

    def _tell(self, name: str, data: Json) -> None:
        frame = _frame(name, data)
        for queue in self._listeners:
            if queue.qsize() >= MOST_WAITING:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(_frame("all", self._all()))
            else:
                queue.put_nowait(frame)

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        file = FILES / name
        if file.suffix not in _KINDS or file.parent != FILES or not file.is_file():
            raise HTTPException(404)
        return FileResponse(file, media_type=_KINDS[file.suffix])

    async def _events(self, _: Request) -> Response:
        if self._is_new:
            self._is_new = False
            self.opened()
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        queue.put_nowait(_frame("all", self._all()))
        self._listeners.add(queue)
        try:
            while (frame := await queue.get()) is not None:
                yield frame
        finally:
            self._listeners.discard(queue)

    async def _send(self, request: Request) -> Response:
        body = await _body(request)
        text = body.get("text")
        reply_to = body.get("reply_to")
        if not isinstance(text, str) or not text.strip() or not isinstance(reply_to, int | None):
            raise HTTPException(400, "a text is wanted")
        readable = text.strip().encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        return self._act(lambda: self.person.paste(readable, reply_to=reply_to))

    async def _tap(self, request: Request) -> Response:
        body = await _body(request)
        message_id = body.get("id")
        data = body.get("data")
        if not isinstance(message_id, int) or not isinstance(data, str):
            raise HTTPException(400, "a message and its button are wanted")
        return self._act(lambda: self.person.tap(message_id, data))

    async def _stop(self, request: Request) -> Response:
        await _body(request)
        return self._act(self.person.stop_draft)

    def _act(self, deed: Callable[[], object]) -> Response:
        try:
            deed()
        except LookupError:
            raise HTTPException(409, "that is not there any more") from None
        return Response(status_code=204)


def _frame(name: str, data: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object a browser sent; refuses anything else, and anything long."""
    read = b""
    async for chunk in request.stream():
        read += chunk
        if len(read) > MOST_BYTES:
            raise HTTPException(413, "that is too long")
    try:
        body = json.loads(read)
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise HTTPException(400, "JSON is wanted") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "an object is wanted")
    return body
