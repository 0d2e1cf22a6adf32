"""The chat page of the demo: an ASGI app that shows one chat of the simulated Telegram and takes actions.

Owns its secret address, its listeners, and what a browser may send. Knows the simulator, not the gateway.
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

from bot.sim.page.guard import PageGuard
from bot.sim.page.shapes import Json, to_draft_json, to_event_json, to_message_json
from bot.sim.telegram.entities import count_utf16_units
from bot.sim.telegram.server import BotApi, SimulatedPerson

STATIC_FOLDER = Path(__file__).parent / "static"
MAX_BODY_BYTES = 64 * 1024
MAX_FILE_BYTES = 24 << 20  # more than the 20 MB a bot may fetch, so that its refusal can be seen
MAX_NAME_CHARACTERS = 200  # of a file
MAX_CAPTION_UNITS = 1024
MOST_WAITING = 500  # events a browser may be behind before it is shown everything afresh
_PHOTO_SIGNATURES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageNotice:
    """The top of the page: a line, what is simulated and what is real, and the command to continue with."""

    line: str
    details: tuple[str, ...]
    command: str


@dataclass(eq=False)
class ChatPage:
    """One chat's page at `path`. Events flow while `run` runs; `close` ends the streams of browsers.

    `on_first_open` is called when the page is opened for the first time.
    """

    bot_api: BotApi
    person: SimulatedPerson
    notice: PageNotice
    suggestions: Sequence[str] = ()
    on_first_open: Callable[[], object] = lambda: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))

    def __post_init__(self) -> None:
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._breakdowns: dict[int, Json] = {}
        self._is_unopened = True
        routes = [
            Route("/", self._serve_file),
            Route("/events", self._serve_events),
            Route("/photos/{file_id}", self._serve_photo),
            Route("/send", self._send, methods=["POST"]),
            Route("/attach", self._attach, methods=["POST"]),
            Route("/edit", self._edit, methods=["POST"]),
            Route("/tap", self._tap, methods=["POST"]),
            Route("/stop", self._stop, methods=["POST"]),
            Route("/{name}", self._serve_file),
        ]
        pages = Starlette(routes=routes)
        pages.router.redirect_slashes = False  # it would redirect to an address without the token
        self.app: ASGIApp = PageGuard(pages, self.token)

    @property
    def path(self) -> str:
        """The page's path below the address it is served at."""
        return f"/{self.token}/"

    async def run(self) -> None:
        """Pass on what happens in the chat until cancelled."""
        with self.bot_api.subscribe(self.person.id) as events:
            async for event in events:
                if event.kind == "lost":
                    self._broadcast("all", self._snapshot())
                elif event.kind == "commands":
                    self._broadcast("commands", {"commands": self.bot_api.list_menu(self.person)})
                else:
                    self._broadcast(event.kind, to_event_json(event, self.person.id))

    def close(self) -> None:
        """End every stream of events, for good."""
        for queue in self._listeners:
            queue.put_nowait(None)

    def show_breakdown(self, message_id: int, breakdown: Json) -> None:
        """Show a turn's breakdown (lines and figures, see static/account.js) below a message."""
        self._breakdowns[message_id] = breakdown
        self._broadcast("account", {"id": message_id, **breakdown})

    def _snapshot(self) -> Json:
        chat = self.person.chat
        return {
            "notice": {
                "line": self.notice.line,
                "details": self.notice.details,
                "command": self.notice.command,
            },
            "suggestions": self.suggestions,
            "commands": self.bot_api.list_menu(self.person),
            "messages": [
                to_message_json(message.raw, self.person.id, message.shown_reactions)
                for message in chat.messages
            ],
            "draft": to_draft_json(chat.draft.to_data()) if chat.draft else None,
            "accounts": [
                {"id": message_id, **breakdown} for message_id, breakdown in self._breakdowns.items()
            ],
        }

    def _broadcast(self, name: str, data: Json) -> None:
        frame = _format_event(name, data)
        for queue in self._listeners:
            if queue.qsize() >= MOST_WAITING:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(_format_event("all", self._snapshot()))
            else:
                queue.put_nowait(frame)

    async def _serve_file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        file = STATIC_FOLDER / name
        if file.suffix not in _MEDIA_TYPES or file.parent != STATIC_FOLDER or not file.is_file():
            raise HTTPException(404)
        return FileResponse(file, media_type=_MEDIA_TYPES[file.suffix])

    async def _serve_photo(self, request: Request) -> Response:
        content = self.bot_api.find_file(request.path_params["file_id"]) or b""
        media_type = _find_photo_type(content)
        if media_type is None:
            raise HTTPException(404)
        return Response(content, media_type=media_type)

    async def _serve_events(self, _: Request) -> Response:
        if self._is_unopened:
            self._is_unopened = False
            self.on_first_open()
        return StreamingResponse(self._stream_events(), media_type="text/event-stream")

    async def _stream_events(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        queue.put_nowait(_format_event("all", self._snapshot()))
        self._listeners.add(queue)
        try:
            while (frame := await queue.get()) is not None:
                yield frame
        finally:
            self._listeners.discard(queue)

    async def _send(self, request: Request) -> Response:
        body = await _read_json_object(request)
        text = body.get("text")
        reply_to = body.get("reply_to")
        if not isinstance(text, str) or not text.strip() or not isinstance(reply_to, int | None):
            raise HTTPException(400, "a text is wanted")
        readable = text.strip().encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        return self._run_action(lambda: self.person.paste(readable, reply_to=reply_to))

    async def _attach(self, request: Request) -> Response:
        """Send the body as a photo, or as a file if it is none; its name and caption are in the address."""
        content = await _read_body(request, MAX_FILE_BYTES)
        name = request.query_params.get("name", "")[:MAX_NAME_CHARACTERS]
        caption = request.query_params.get("caption", "").strip()
        if not content or not name:
            raise HTTPException(400, "a file with a name is wanted")
        if count_utf16_units(caption) > MAX_CAPTION_UNITS:
            raise HTTPException(413, "A caption has at most 1,024 characters.")
        if _find_photo_type(content) is not None:
            return self._run_action(lambda: self.person.send_photo(caption, content=content))
        return self._run_action(lambda: self.person.send_document(name, caption=caption, content=content))

    async def _edit(self, request: Request) -> Response:
        body = await _read_json_object(request)
        message_id = body.get("id")
        text = body.get("text")
        if not isinstance(message_id, int) or not isinstance(text, str) or not text.strip():
            raise HTTPException(400, "a message and its new text are wanted")
        readable = text.strip().encode("utf-8", "replace").decode()
        return self._run_action(lambda: self.person.edit(message_id, readable))

    async def _tap(self, request: Request) -> Response:
        body = await _read_json_object(request)
        message_id = body.get("id")
        data = body.get("data")
        if not isinstance(message_id, int) or not isinstance(data, str):
            raise HTTPException(400, "a message and its button are wanted")
        return self._run_action(lambda: self.person.tap(message_id, data))

    async def _stop(self, request: Request) -> Response:
        await _read_json_object(request)
        return self._run_action(self.person.stop_draft)

    def _run_action(self, action: Callable[[], object]) -> Response:
        try:
            action()
        except LookupError:
            raise HTTPException(409, "that is not there any more") from None
        except ValueError as error:
            raise HTTPException(409, str(error)) from None
        return Response(status_code=204)


def _format_event(name: str, data: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def _find_photo_type(content: bytes) -> str | None:
    """The media type of a picture that browsers show and Telegram sends as a photo; None: it is none."""
    return next((kind for begin, kind in _PHOTO_SIGNATURES.items() if content.startswith(begin)), None)


async def _read_body(request: Request, max_bytes: int) -> bytes:
    chunks = []
    length = 0
    async for chunk in request.stream():
        chunks.append(chunk)
        length += len(chunk)
        if length > max_bytes:
            raise HTTPException(413, "That is too long.")
    return b"".join(chunks)


async def _read_json_object(request: Request) -> dict[str, Any]:
    """The JSON object a browser sent; refuses anything else, and anything long."""
    try:
        body = json.loads(await _read_body(request, MAX_BODY_BYTES))
    except (JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise HTTPException(400, "JSON is wanted") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "an object is wanted")
    return body
