"""An endpoint that replays recorded responses over real HTTP, one after the other."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bot.domain import Message, ModelRequest
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.seats import SeatLimiter
from bot.llm.typed_reads import TypedQuestions, TypedReader, TypedReading

FIXTURES = Path(__file__).parents[1] / "fixtures" / "endpoint"
PATIENCE_SECONDS = 60.0  # the machine may be busy


@dataclass
class RecordedResponse:
    """One response: status and either a JSON body or the lines of an event stream."""

    status: int = 200
    body: Any = None
    lines: Sequence[str] = ()
    keeps_open: bool = False  # send the lines, then keep the connection open in silence


def load_response(name: str, *, keeps_open: bool = False) -> RecordedResponse:
    """A recorded response; one that was not streamed is sent as a stream of one chunk, like a canvas."""
    case = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    if case["sse"] is not None:
        return RecordedResponse(case["status"], None, case["sse"], keeps_open)
    if case["status"] == 200:
        return RecordedResponse(200, None, to_stream_lines(case["body"]))
    return RecordedResponse(case["status"], case["body"])


def to_stream_lines(body: dict[str, Any]) -> list[str]:
    """A complete response as an event stream of one canvas."""
    choice = body["choices"][0]
    calls = [{"index": index, **call} for index, call in enumerate(choice["message"].get("tool_calls") or ())]
    delta = {"content": choice["message"]["content"], "reasoning": choice["message"].get("reasoning")}
    if calls:
        delta["tool_calls"] = calls
    chunk = {"delta": delta, "finish_reason": choice["finish_reason"]}
    last = {"choices": [], "usage": body["usage"], "system_fingerprint": body["system_fingerprint"]}
    return [*format_stream({"id": body["id"], "choices": [chunk]}, last | {"metrics": body.get("metrics")})]


def format_stream(*chunks: Any) -> list[str]:
    """Chunks as the lines of an event stream that ends properly."""
    return [*(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]"]


def make_response(text: str, finish: str | None = "stop") -> RecordedResponse:
    """A response of one canvas."""
    return RecordedResponse(
        lines=format_stream({"choices": [{"delta": {"content": text}, "finish_reason": finish}]})
    )


@dataclass
class ReplayServer:
    """Sends its responses one after the other; records requests and notices when a client leaves.

    `permits`: each line waits for one; None: they are sent at once.
    """

    responses: Iterable[RecordedResponse]
    permits: asyncio.Semaphore | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._next = iter(self.responses)
        self.app = Starlette(routes=[Route("/v1/chat/completions", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        return _StreamedAnswer(next(self._next), self)


class _StreamedAnswer(Response):
    def __init__(self, recorded_response: RecordedResponse, replay: ReplayServer) -> None:
        super().__init__()
        self._recorded = recorded_response
        self._replay = replay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = b"application/json" if self._recorded.body is not None else b"text/event-stream; charset=utf-8"
        await send(
            {
                "type": "http.response.start",
                "status": self._recorded.status,
                "headers": [(b"content-type", kind)],
            }
        )
        if self._recorded.body is not None:
            await send({"type": "http.response.body", "body": json.dumps(self._recorded.body).encode()})
            return
        for line in self._recorded.lines:
            if self._replay.permits is not None:
                await self._replay.permits.acquire()
            await send({"type": "http.response.body", "body": f"{line}\n\n".encode(), "more_body": True})
        self._replay.started.set()
        if self._recorded.keeps_open:
            while (await receive())["type"] != "http.disconnect":
                pass
            self._replay.client_left.set()
            return
        await send({"type": "http.response.body", "body": b""})


class PatientReader(TypedReader):
    """Waits for a reading however busy the machine is."""

    async def read(
        self, questions: TypedQuestions, state: str, *, timeout_seconds: float = PATIENCE_SECONDS
    ) -> TypedReading | None:
        return await super().read(questions, state, timeout_seconds=PATIENCE_SECONDS)


@contextlib.asynccontextmanager
async def open_client(
    replay: ReplayServer, *, seats: int = 4, silence_seconds: float = PATIENCE_SECONDS
) -> AsyncIterator[ModelClient]:
    """The real client against recorded responses."""
    async with (
        serve(replay.app) as url,
        connect_client(
            url, "gemma4", seats=seats, api_key="sk-secret", silence_seconds=silence_seconds
        ) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def connect_client(
    server_url: str,
    model: str | None = None,
    *,
    seats: int = 4,
    api_key: str | None = None,
    silence_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[ModelClient]:
    """The real client of a server."""
    client = ModelClient(
        f"{server_url}/v1", model, SeatLimiter(seats), api_key=api_key, silence_seconds=silence_seconds
    )
    try:
        yield client
    finally:
        await client.close()


def make_request(*texts: str, **changes: Any) -> ModelRequest:
    """A request with these user messages; `changes` are its other fields."""
    fields: dict[str, Any] = {
        "messages": tuple(Message("user", text) for text in texts or ("hi",)),
        "tools": (),
        "tool_choice": "auto",
        "thinking": False,
        "max_tokens": 1024,
        "session": "conversation 7",
        "lane": "1",
    }
    return ModelRequest(**fields | changes)


def ignore(*_: object) -> None:
    """A callback that does nothing."""
