"""Servers that speak the common protocol and drop vLLM's fields without a word, as most on one's own machine
do.
"""

import json
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.check.findings import Report
from bot.http_server import serve
from bot.sim.vllm.server import Endpoint, Profile
from tests.support.endpoint_check import check_at, wrong

DROPPED = ("chat_template_kwargs", "repetition_detection", "priority")


@dataclass
class Forgiving:
    """Takes what the strict server behind it would refuse; `routes` are answered here."""

    app: ASGIApp
    routes: dict[str, Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self.routes:
            await _json(send, self.routes[scope["path"]])
        elif scope["method"] == "POST":
            await self.app(scope, _once(_common(json.loads(await _whole(receive))), receive), send)
        else:
            await self.app(scope, receive, send)


def _common(body: dict[str, Any]) -> dict[str, Any]:
    """What the common protocol knows of a request."""
    kept = {key: value for key, value in body.items() if key not in DROPPED}
    kept["messages"] = [
        {key: one[key] for key in one if key != "reasoning"} for one in body.get("messages", ())
    ]
    if "stream_options" in kept:
        kept["stream_options"] = {"include_usage": True}
    return kept


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _once(body: dict[str, Any], receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def next_one() -> Message:
        return left.pop() if left else await receive()

    return next_one


async def _json(send: Send, value: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def forgiven(**routes: Any) -> Report:
    app = Forgiving(Endpoint(Profile.hosted_api()).app, {f"/{name}": value for name, value in routes.items()})
    async with serve(app) as url:
        return await check_at(url)


async def test_fields_that_are_dropped_show_in_what_they_do_not_do() -> None:
    report = await forgiven()
    assert wrong(report) == {
        "protocol": "warn",
        "usage in streams": "warn",
        "server timings": "warn",
        "thinking switch": "fail",
        "temperature": "warn",
        "canvas": "warn",
        "typed reads": "warn",
    }
    assert "does not think though it was told to" in report.named("thinking switch").seen
    assert report.named("tool calls").status == report.named("reply length").status == "pass"


async def test_a_tokenizer_of_another_kind_is_not_taken_for_a_template() -> None:
    report = await forgiven(tokenize={"tokens": [], "count": None}, version={"version": "b4567"})
    assert "/tokenize" in report.named("protocol").seen
    assert report.named("template").status == report.named("control tokens").status == "unknown"
    assert report.named("thinking by default").status == "unknown"
    assert report.named("version").status == "unknown"
    assert "does not think" in report.named("thinking switch").seen
