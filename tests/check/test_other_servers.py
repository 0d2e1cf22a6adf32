"""Servers that speak the common protocol and silently drop vLLM's fields, as most local ones do."""

import json
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.check.findings import CheckReport
from bot.http_server import serve
from tests.support.endpoint.other_servers import OtherServer
from tests.support.endpoint.server import ServerProfile
from tests.support.endpoint_check import build_endpoint, check_endpoint, check_url, problem_statuses

DROPPED_FIELDS = ("chat_template_kwargs", "repetition_detection", "priority")


@dataclass
class FieldDroppingServer:
    """Takes what the strict server behind it would refuse; `routes` are answered here."""

    app: ASGIApp
    routes: dict[str, Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self.routes:
            await _send_json(send, self.routes[scope["path"]])
        elif scope["method"] == "POST":
            await self.app(
                scope, _replay_body(_drop_vllm_fields(json.loads(await _read_body(receive))), receive), send
            )
        else:
            await self.app(scope, receive, send)


def _drop_vllm_fields(body: dict[str, Any]) -> dict[str, Any]:
    """What the common protocol knows of a request."""
    known = {key: value for key, value in body.items() if key not in DROPPED_FIELDS}
    known["messages"] = [
        {key: message[key] for key in message if key != "reasoning"} for message in body.get("messages", ())
    ]
    if "stream_options" in known:
        known["stream_options"] = {"include_usage": True}
    return known


async def _read_body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replay_body(body: dict[str, Any], receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive_next() -> Message:
        return pending.pop() if pending else await receive()

    return receive_next


async def _send_json(send: Send, value: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def check_field_dropping_server(**routes: Any) -> CheckReport:
    app = FieldDroppingServer(
        build_endpoint(ServerProfile.hosted_api()).app, {f"/{name}": value for name, value in routes.items()}
    )
    async with serve(app) as url:
        return await check_url(url)


async def test_fields_that_are_dropped_show_in_what_they_do_not_do() -> None:
    report = await check_field_dropping_server()
    assert problem_statuses(report) == {
        "protocol": "warn",
        "usage in streams": "warn",
        "server timings": "warn",
        "thinking switch": "fail",
        "typed reads": "warn",
    }
    assert (
        report.get_finding("version").seen == "This is not vLLM, or a proxy hides its /version and /metrics."
    )
    assert report.get_finding("usage in streams").mend == "with vLLM: --enable-force-include-usage"
    for lacking in ("/version", "/tokenize", "/metrics"):
        assert lacking in report.get_finding("protocol").seen
    assert "does not think though it was told to" in report.get_finding("thinking switch").seen
    assert report.get_finding("tool calls").status == report.get_finding("reply length").status == "pass"


@pytest.mark.parametrize("server", get_args(OtherServer))
async def test_another_server_is_named_and_what_it_lacks(server: OtherServer) -> None:
    report = await check_endpoint(build_endpoint(ServerProfile.of_server(server)))
    version = report.get_finding("version")
    assert version.seen == f"This seems to be {server}. What it does was read in its sources and never tried."
    statuses = problem_statuses(report)
    assert "fail" not in statuses.values()
    for name in ("tool calls", "parallel calls", "thinking switch", "thoughts apart", "reply length"):
        assert report.get_finding(name).status == "pass", name
    assert statuses.keys() >= {"version", "protocol", "server timings", "typed reads"}


async def test_a_server_that_answers_every_path_has_no_version() -> None:
    report = await check_field_dropping_server(version={"error": "Unexpected endpoint"})
    assert "This is not vLLM" in report.get_finding("version").seen
    assert "/version" in report.get_finding("protocol").seen


async def test_a_tokenizer_of_another_kind_is_not_taken_for_a_template() -> None:
    report = await check_field_dropping_server(
        tokenize={"tokens": [], "count": None}, version={"version": "b4567"}
    )
    assert "/tokenize" in report.get_finding("protocol").seen
    assert report.get_finding("template").status == report.get_finding("control tokens").status == "unknown"
    assert report.get_finding("thinking by default").status == "unknown"
    assert report.get_finding("version").status == "unknown"
    assert "does not think" in report.get_finding("thinking switch").seen
