"""Plays requests against a simulated endpoint and reads what comes back, for its tests."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bot.http_server import serve
from tests.support.endpoint.server import ScriptedEndpoint

FIXTURES = Path(__file__).parent.parent / "fixtures" / "endpoint"


def load_fixture(name: str) -> dict[str, Any]:
    """A recorded exchange by its name."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return found


@dataclass
class StreamedReply:
    """A stream put together, as a careful client does it."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    usage: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    is_done: bool = False


def parse_chunks(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The JSON of the data lines."""
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def merge_stream(lines: list[str]) -> StreamedReply:
    """Everything a stream said."""
    said = StreamedReply(is_done=lines[-1:] == ["data: [DONE]"])
    for chunk in parse_chunks(lines):
        if "error" in chunk:
            said.errors.append(chunk["error"])
        for choice in chunk.get("choices", ()):
            _add_choice(said, choice)
        if not chunk.get("choices"):
            said.usage = chunk.get("usage", said.usage)
    return said


def _add_choice(reply: StreamedReply, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    reply.reasoning += delta.get("reasoning") or ""
    reply.content += delta.get("content") or ""
    for call in delta.get("tool_calls", ()):
        name, arguments = reply.calls.setdefault(call["index"], ["", ""])
        function = call["function"]
        reply.calls[call["index"]] = [
            name + function.get("name", ""),
            arguments + (function.get("arguments") or ""),
        ]
    if choice["finish_reason"]:
        reply.finish_reason, reply.stop_reason = choice["finish_reason"], choice.get("stop_reason")


@dataclass
class ClientResponse:
    """An answer: `body` of JSON, or the non-empty `lines` of a stream."""

    status: int
    content_type: str | None
    headers: httpx.Headers
    body: Any
    lines: list[str]

    @property
    def streamed_reply(self) -> StreamedReply:
        return merge_stream(self.lines)

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["choices"][0]["message"]
        return found


@dataclass
class SimulatorClient:
    """A client of one endpoint."""

    endpoint: ScriptedEndpoint
    http: httpx.AsyncClient

    async def send(self, body: Any, path: str = "/v1/chat/completions", **headers: str) -> ClientResponse:
        """Send a body as it is, or GET without one."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if body is None:
            answer = await self.http.get(path, headers=sent)
        else:
            answer = await self.http.post(path, json=body, headers=sent)
        return read_response(answer)

    async def send_text(self, text: str, **fields: Any) -> ClientResponse:
        """One user message."""
        return await self.send({"messages": [{"role": "user", "content": text}], **fields})


def read_response(response: httpx.Response) -> ClientResponse:
    """Read an answer."""
    kind = response.headers.get("content-type")
    streamed = (kind or "").startswith("text/event-stream")
    body = response.json() if kind == "application/json" else None
    lines = [line for line in response.text.split("\n") if line] if streamed else []
    return ClientResponse(response.status_code, kind, response.headers, body, lines)


@asynccontextmanager
async def open_client(endpoint: ScriptedEndpoint) -> AsyncIterator[SimulatorClient]:
    """A served endpoint with a client."""
    async with (
        serve(endpoint.app) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=False) as http,  # without loading certificates
    ):
        yield SimulatorClient(endpoint, http)
