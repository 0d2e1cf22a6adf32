"""The chat page of the demo: an ASGI app that shows chats of the simulated Telegram and takes actions.

Owns its secret address and what a browser may send. Knows the simulator, not the gateway.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
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
from bot.sim.page.shapes import Json
from bot.sim.page.view import ChatView
from bot.sim.telegram.entities import count_utf16_units
from bot.sim.telegram.server import BotApi

STATIC_FOLDER = Path(__file__).parent / "static"
MAX_BODY_BYTES = 64 * 1024
MAX_FILE_BYTES = 24 << 20  # more than the 20 MB a bot may fetch, so that its refusal can be seen
MAX_NAME_CHARACTERS = 200  # of a file
MAX_CAPTION_UNITS = 1024
_OGG = "audio/ogg"
_SIGNATURES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"OggS": _OGG}
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageNotice:
    """The top of the page: a line, what is simulated and what is real, and the command to continue with."""

    line: str
    details: tuple[str, ...]
    command: str


@dataclass(eq=False)
class ChatPage:
    """The page of these `views` at `path`.

    Events flow while `run` runs; `close` ends the streams of browsers. A browser shows one view at a time,
    and names it by its place in each request. `kill` kills the gateway, for a button; `palette` is the CSS of
    the colours of breakdowns.
    """

    bot_api: BotApi
    notice: PageNotice
    views: Sequence[ChatView]
    kill: Callable[[], object]
    palette: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))

    def __post_init__(self) -> None:
        routes = [
            Route("/", self._serve_file),
            Route("/events", self._serve_events),
            Route("/photos/{file_id}", self._serve_media),
            Route("/voices/{file_id}", self._serve_media),
            Route("/send", self._send, methods=["POST"]),
            Route("/attach", self._attach, methods=["POST"]),
            Route("/edit", self._edit, methods=["POST"]),
            Route("/tap", self._tap, methods=["POST"]),
            Route("/stop", self._stop, methods=["POST"]),
            Route("/kill", self._kill, methods=["POST"]),
            Route("/palette.css", self._serve_palette),
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
        """Pass on what happens in the chats until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for view in self.views:
                tasks.create_task(view.run(), name="view")

    def close(self) -> None:
        """End every stream of events, for good."""
        for view in self.views:
            view.close()

    def show_breakdown(self, chat_id: int, message_id: int, breakdown: Json) -> None:
        """Show a turn's breakdown (lines and figures, see static/account.js) below a message of a chat."""
        for view in self.views:
            if view.chat.id == chat_id:
                view.show_breakdown(message_id, breakdown)

    def show(self, name: str, data: Json, chat_id: int | None = None) -> None:
        """Show what takes the place of what had this name; in one chat, or in all."""
        for view in self.views:
            if chat_id in (None, view.chat.id):
                view.show(name, data)

    def _to_page_json(self) -> Json:
        """What is the same in all views."""
        return {
            "notice": {
                "line": self.notice.line,
                "details": self.notice.details,
                "command": self.notice.command,
            },
            "views": [
                {"person": view.person.user["first_name"], "chat": view.labels.chat} for view in self.views
            ],
        }

    def _find_view(self, request: Request) -> ChatView:
        number = request.query_params.get("view", "0")
        if number not in map(str, range(len(self.views))):
            raise HTTPException(404)
        return self.views[int(number)]

    async def _serve_file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        file = STATIC_FOLDER / name
        if file.suffix not in _MEDIA_TYPES or file.parent != STATIC_FOLDER or not file.is_file():
            raise HTTPException(404)
        return FileResponse(file, media_type=_MEDIA_TYPES[file.suffix])

    async def _serve_palette(self, _request: Request) -> Response:
        return Response(self.palette, media_type="text/css")

    async def _serve_media(self, request: Request) -> Response:
        content = self.bot_api.find_file(request.path_params["file_id"]) or b""
        media_type = _find_media_type(content)
        if media_type is None:
            raise HTTPException(404)
        return Response(content, media_type=media_type)

    async def _serve_events(self, request: Request) -> Response:
        events = self._find_view(request).stream_events(self._to_page_json())
        return StreamingResponse(events, media_type="text/event-stream")

    async def _send(self, request: Request) -> Response:
        body = await _read_json_object(request)
        text = body.get("text")
        reply_to = body.get("reply_to")
        if not isinstance(text, str) or not text.strip() or not isinstance(reply_to, int | None):
            raise HTTPException(400, "a text is wanted")
        readable = text.strip().encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        view = self._find_view(request)
        if readable in view.files:
            return _send_file(view, *view.files[readable], readable)
        return _run_action(lambda: view.person.paste(readable, reply_to=reply_to, thread=view.thread))

    async def _attach(self, request: Request) -> Response:
        """Send the body; its name and caption are in the address."""
        content = await _read_body(request, MAX_FILE_BYTES)
        name = request.query_params.get("name", "")[:MAX_NAME_CHARACTERS]
        caption = request.query_params.get("caption", "").strip()
        if not content or not name:
            raise HTTPException(400, "a file with a name is wanted")
        if count_utf16_units(caption) > MAX_CAPTION_UNITS:
            raise HTTPException(413, "A caption has at most 1,024 characters.")
        return _send_file(self._find_view(request), name, content, caption)

    async def _edit(self, request: Request) -> Response:
        body = await _read_json_object(request)
        message_id = body.get("id")
        text = body.get("text")
        if not isinstance(message_id, int) or not isinstance(text, str) or not text.strip():
            raise HTTPException(400, "a message and its new text are wanted")
        readable = text.strip().encode("utf-8", "replace").decode()
        view = self._find_view(request)
        return _run_action(lambda: view.person.edit(message_id, readable, thread=view.thread))

    async def _tap(self, request: Request) -> Response:
        body = await _read_json_object(request)
        message_id = body.get("id")
        data = body.get("data")
        if not isinstance(message_id, int) or not isinstance(data, str):
            raise HTTPException(400, "a message and its button are wanted")
        view = self._find_view(request)
        return _run_action(lambda: view.person.tap(message_id, data, thread=view.thread))

    async def _stop(self, request: Request) -> Response:
        """Stop the draft of a private chat; groups have none."""
        await _read_json_object(request)
        return _run_action(self._find_view(request).person.stop_draft)

    async def _kill(self, request: Request) -> Response:
        await _read_json_object(request)
        return _run_action(self.kill)


def _send_file(view: ChatView, name: str, content: bytes, caption: str) -> Response:
    """Send what the content is: a photo, a voice message, which has no caption, or else a file."""
    media_type = _find_media_type(content)
    if media_type == _OGG:
        return _run_action(lambda: view.person.send_voice(content=content, thread=view.thread))
    options: Json = {"caption": caption, "content": content, "thread": view.thread}
    if media_type is not None:
        return _run_action(lambda: view.person.send_photo(**options))
    return _run_action(lambda: view.person.send_document(name, **options))


def _run_action(action: Callable[[], object]) -> Response:
    try:
        action()
    except LookupError:
        raise HTTPException(409, "that is not there any more") from None
    except ValueError as error:
        raise HTTPException(409, str(error)) from None
    return Response(status_code=204)


def _find_media_type(content: bytes) -> str | None:
    """The media type of a photo or a voice that browsers show and Telegram sends as one; None: it is none."""
    return next((kind for begin, kind in _SIGNATURES.items() if content.startswith(begin)), None)


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
