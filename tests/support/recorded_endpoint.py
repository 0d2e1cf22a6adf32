"""An endpoint that answers with recorded responses, over real HTTP, one after the other."""

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
from bot.llm.client import Llm
from bot.llm.seats import Seats

FIXTURES = Path(__file__).parents[1] / "fixtures" / "endpoint"


@dataclass
class Recorded:
    """One answer: status and either a JSON body or the lines of an event stream."""

    status: int = 200
    body: Any = None
    lines: Sequence[str] = ()
    hold: bool = False  # send the lines, then keep the connection open without a word


def recorded(name: str, *, hold: bool = False) -> Recorded:
    """A recorded answer; what was not streamed is streamed in one chunk, as a canvas would be."""
    case = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    if case["sse"] is not None:
        return Recorded(case["status"], None, case["sse"], hold)
    if case["status"] == 200:
        return Recorded(200, None, as_stream(case["body"]))
    return Recorded(case["status"], case["body"])


def as_stream(body: dict[str, Any]) -> list[str]:
    """A whole answer as an event stream of one canvas."""
    choice = body["choices"][0]
    calls = [{"index": at, **call} for at, call in enumerate(choice["message"].get("tool_calls") or ())]
    delta = {"content": choice["message"]["content"], "reasoning": choice["message"].get("reasoning")}
    chunk = {
        "delta": delta | ({"tool_calls": calls} if calls else {}),
        "finish_reason": choice["finish_reason"],
    }
    last = {"choices": [], "usage": body["usage"], "system_fingerprint": body["system_fingerprint"]}
    return [*stream_lines({"id": body["id"], "choices": [chunk]}, last | {"metrics": body.get("metrics")})]


def stream_lines(*chunks: Any) -> list[str]:
    """Chunks as the lines of an event stream that ends well."""
    return [*(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]"]


def said(text: str, finish: str | None = "stop") -> Recorded:
    """An answer of one canvas."""
    return Recorded(lines=stream_lines({"choices": [{"delta": {"content": text}, "finish_reason": finish}]}))


@dataclass
class Replay:
    """Gives its answers one after the other; keeps what was asked and tells when a client went away."""

    answers: Iterable[Recorded]
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._next = iter(self.answers)
        self.app = Starlette(routes=[Route("/v1/chat/completions", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        return _Answer(next(self._next), self)


class _Answer(Response):
    def __init__(self, answer: Recorded, replay: Replay) -> None:
        super().__init__()
        self._answer = answer
        self._replay = replay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = b"application/json" if self._answer.body is not None else b"text/event-stream; charset=utf-8"
        await send(
            {
                "type": "http.response.start",
                "status": self._answer.status,
                "headers": [(b"content-type", kind)],
            }
        )
        if self._answer.body is not None:
            await send({"type": "http.response.body", "body": json.dumps(self._answer.body).encode()})
            return
        for line in self._answer.lines:
            await send({"type": "http.response.body", "body": f"{line}\n\n".encode(), "more_body": True})
        self._replay.started.set()
        if self._answer.hold:
            while (await receive())["type"] != "http.disconnect":
                pass
            self._replay.left.set()
            return
        await send({"type": "http.response.body", "body": b""})


@contextlib.asynccontextmanager
async def replaying(replay: Replay, *, seats: int = 4, silence: float = 5.0) -> AsyncIterator[Llm]:
    """The real client in front of recorded answers."""
    async with serve(replay.app) as url:
        llm = Llm(f"{url}/v1", "gemma4", Seats(seats), api_key="sk-secret", silence=silence)
        try:
            yield llm
        finally:
            await llm.close()


def request(*texts: str, **changes: Any) -> ModelRequest:
    """A request with these user messages."""
    wanted: dict[str, Any] = {
        "messages": tuple(Message("user", text) for text in texts or ("hi",)),
        "tools": (),
        "tool_choice": "auto",
        "thinking": False,
        "max_tokens": 1024,
        "session": "conversation 7",
        "lane": "1",
    }
    return ModelRequest(**wanted | changes)


def ignore(*_: object) -> None:
    """Nobody listens."""
