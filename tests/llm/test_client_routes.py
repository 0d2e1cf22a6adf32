"""What a turn asks the endpoint apart from its calls: on the connection of these, and never for long."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.domain import Message
from bot.http_server import serve
from bot.llm import client as llm_client
from bot.llm.dialect import write_messages, write_tools
from bot.llm.endpoint_config import RouteAnswer
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.recorded_endpoint import connect_client, ignore, make_request

MESSAGES = (Message("system", "Be brief."), Message("user", "How late is it?"))
TOOL = {"name": "clock", "description": "Tells the time.", "parameters": {"type": "object", "properties": {}}}
BODY = {
    "messages": write_messages(MESSAGES),
    "tools": write_tools([TOOL]),
    "chat_template_kwargs": {"enable_thinking": True},
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up no route because the machine is busy."""
    monkeypatch.setattr(llm_client, "QUICK_SECONDS", 60.0)


QUESTION = {"input": "x", "questions": [{"type": "predicate", "instructions": "a"}]}


async def test_a_prompt_is_counted_as_a_call_sends_it() -> None:
    endpoint = ScriptedEndpoint(api_key="k")
    async with (
        serve(endpoint.app) as url,
        connect_client(url, api_key="k") as client,
        httpx.AsyncClient(headers={"authorization": "Bearer k"}, verify=False, timeout=60) as http,
    ):
        count = await client.count_tokens(MESSAGES, [TOOL], thinking=True)
        await http.post(f"{url}/v1/chat/completions", json={**BODY, "max_tokens": 5})
    assert count == endpoint.requests[0].prompt_tokens


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"detail": "Not Found"}, 404),
        PlainTextResponse("no JSON"),
        Response("no JSON", media_type="application/json"),
        Response("[" * 5000, media_type="application/json"),
        JSONResponse({"count": True}),
        JSONResponse({"count": -3}),
        JSONResponse([]),
    ],
)
async def test_a_prompt_that_cannot_be_counted_has_no_count(answer: Response) -> None:
    app = Starlette(routes=[Route("/tokenize", lambda _request: answer, methods=["POST"])])
    async with serve(app) as url, connect_client(url) as client:
        assert await client.count_tokens(MESSAGES, [TOOL], thinking=True) is None


async def test_a_slow_server_is_not_waited_for() -> None:
    endpoint = ScriptedEndpoint()
    async with serve(endpoint.app) as url, connect_client(url) as client:
        endpoint.hold()
        assert (
            await client.ask("/decisions", QUESTION, timeout_seconds=0.02, with_model=True) == RouteAnswer()
        )
        endpoint.release()
    async with connect_client("http://127.0.0.1:9") as client:
        assert await client.count_tokens(MESSAGES, [TOOL], thinking=True) is None


async def test_a_question_and_the_call_after_it_share_a_connection() -> None:
    peers = set[Any]()
    endpoint = ScriptedEndpoint()

    async def note_peer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            peers.add(Request(scope).client)
        await endpoint.app(scope, receive, send)

    async with serve(note_peer) as url, connect_client(url) as client:
        assert (await client.ask("/decisions", QUESTION, timeout_seconds=60, with_model=True)).body["answers"]
        assert await client.count_tokens(MESSAGES, [TOOL], thinking=True)
        await client.call(make_request(), ignore, ignore)
    assert len(peers) == 1
