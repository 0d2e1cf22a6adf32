"""Plays requests against a simulated endpoint and reads what comes back, for its tests."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bot.http_server import serve
from bot.sim.vllm.server import Endpoint

FIXTURES = Path(__file__).parent.parent / "fixtures" / "endpoint"


def fixture(name: str) -> dict[str, Any]:
    """A recorded exchange by its name."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return found


@dataclass
class Said:
    """A stream put together, as a careful client does it."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    finish: str | None = None
    stop_reason: int | str | None = None
    usage: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False


def chunks(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The JSON of the data lines."""
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def merged(lines: list[str]) -> Said:
    """Everything a stream said."""
    said = Said(done=lines[-1:] == ["data: [DONE]"])
    for chunk in chunks(lines):
        if "error" in chunk:
            said.errors.append(chunk["error"])
        for choice in chunk.get("choices", ()):
            _add(said, choice)
        if not chunk.get("choices"):
            said.usage = chunk.get("usage", said.usage)
    return said


def _add(said: Said, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    said.reasoning += delta.get("reasoning") or ""
    said.content += delta.get("content") or ""
    for call in delta.get("tool_calls", ()):
        name, arguments = said.calls.setdefault(call["index"], ["", ""])
        function = call["function"]
        said.calls[call["index"]] = [
            name + function.get("name", ""),
            arguments + (function.get("arguments") or ""),
        ]
    if choice["finish_reason"]:
        said.finish, said.stop_reason = choice["finish_reason"], choice.get("stop_reason")


@dataclass
class Played:
    """An answer: `body` of JSON, or the non-empty `lines` of a stream."""

    status: int
    content_type: str | None
    headers: httpx.Headers
    body: Any
    lines: list[str]

    @property
    def said(self) -> Said:
        return merged(self.lines)

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["choices"][0]["message"]
        return found


@dataclass
class Player:
    """A client of one endpoint."""

    endpoint: Endpoint
    http: httpx.AsyncClient

    async def play(self, body: Any, path: str = "/v1/chat/completions", **headers: str) -> Played:
        """Send a body as it is, or GET without one."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if body is None:
            answer = await self.http.get(path, headers=sent)
        else:
            answer = await self.http.post(path, json=body, headers=sent)
        return played(answer)

    async def say(self, text: str, **fields: Any) -> Played:
        """One user message."""
        return await self.play({"messages": [{"role": "user", "content": text}], **fields})


def played(answer: httpx.Response) -> Played:
    """Read an answer."""
    kind = answer.headers.get("content-type")
    streamed = (kind or "").startswith("text/event-stream")
    body = answer.json() if kind == "application/json" else None
    lines = [line for line in answer.text.split("\n") if line] if streamed else []
    return Played(answer.status_code, kind, answer.headers, body, lines)


@asynccontextmanager
async def playing(endpoint: Endpoint) -> AsyncIterator[Player]:
    """A served endpoint with a client."""
    async with serve(endpoint.app) as url, httpx.AsyncClient(base_url=url, timeout=50) as http:
        yield Player(endpoint, http)
