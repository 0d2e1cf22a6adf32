"""Documents read as in production: in a process of its own, and their tools called over HTTP."""

import json
from dataclasses import replace

import pytest
from starlette.responses import Response

from tests.support.http_service import RecordedRequest, redirect_response, running_http_service
from tests.support.openapi_documents import MERGE_BOMB_YAML, SHIPYARD_YAML, build_routes
from tools.arguments import check_arguments
from tools.base import Rule
from tools.http.service import Credentials, HttpService
from tools.http.tools import make_route_tool
from tools.openapi.documents import MAX_DOCUMENT_BYTES, fetch_document, read_document
from tools.sandbox.process import SandboxLimits
from tools.schemas.signature import ToolDefinitionError

URL = "https://ships.test/docs/openapi.yaml"


async def test_operations_become_tools_that_call_the_service(context):
    async with running_http_service() as harness:
        harness.responses["/openapi"] = redirect_response("/docs/openapi.yaml")
        harness.responses["/docs/openapi.yaml"] = Response(SHIPYARD_YAML, media_type="text/yaml")
        document = await fetch_document(
            harness.url_for("api.test", "/openapi"), policy=harness.network_policy()
        )
        private = harness.network_policy("api.test")
        service = HttpService(
            "shipyard", frozenset({document.host}), Credentials({}, {"api_key": "secret"}), private
        )
        picked = ["showShip", "paint-ship", "addShip", "countShips", "writeLog", "mixLog"]
        tools = {
            route.name: make_route_tool(route, service) for route in await build_routes(document, picked)
        }

        async def call(tool: str, **arguments: object) -> tuple[RecordedRequest, str]:
            before = len(harness.requests)
            result = await tools[tool].function(check_arguments(tools[tool], arguments), context)
            return harness.requests[before], str(result)

        show, _ = await call(
            "show_ship", shipId="3", fields=["name", "no"], filter={"flag": None}, X_Trace="t", near=[1.5]
        )
        paint, _ = await call("paint_ship", shipId=3, name="Ann", shipId_body="old", tender={"name": "Tug"})
        add, _ = await call("add_ship", name="Ann & Bob", launched="2020-01-01")
        _, count_text = await call("count_ships")
        log, _ = await call("write_log", body="wörds")
        mix, _ = await call("mix_log", body=["a"])
        bare, _ = await call("mix_log")
    assert (show.path, show.headers["x-trace"]) == ("/v1/ships/3", "t")
    assert show.query == "fields=name,no&near=%5B1.5%5D&api_key=secret"
    assert (paint.method, json.loads(paint.body)) == (
        "PUT",
        {"name": "Ann", "shipId": "old", "tender": {"name": "Tug"}},
    )
    assert (add.headers["content-type"], add.body) == (
        "application/x-www-form-urlencoded",
        "name=Ann%20%26%20Bob&launched=2020-01-01",
    )
    assert count_text.startswith("200 OK")
    assert (log.headers["content-type"], log.body) == ("text/plain", "wörds")
    assert (mix.headers["content-type"], mix.body, bare.body) == ("application/merge-patch+json", '["a"]', "")
    assert [tool.changes for tool in tools.values()] == [False, True, True, False, True, True]
    assert tools["paint_ship"].rule == Rule("always")
    assert "content-type" not in bare.headers


async def test_documents_that_keep_the_processor_busy_are_given_up():
    limits = SandboxLimits(wall_seconds=300, cpu_seconds=1)
    tower = "\n".join(f"{' ' * n}a:" for n in range(3000))
    for body in (b"a: " + b"{a: " * 300_000, tower.encode(), MERGE_BOMB_YAML.encode()):
        with pytest.raises(ToolDefinitionError, match=r"^The document cannot be (read|used): .{5,200}\.$"):
            await read_document(body, URL, limits=limits)
    with pytest.raises(ToolDefinitionError, match="larger than 50 MB"):
        await read_document("x" * MAX_DOCUMENT_BYTES, URL)


async def test_fifty_megabytes_in_one_line_are_read_and_a_thousand_operations_picked():
    body = build_large_document(operations=5500, summary_chars=9000)
    assert 48_000_000 < len(body) < MAX_DOCUMENT_BYTES
    assert b"\n" not in body
    document = await read_document(body, URL)
    assert len(document.operations) == 5000
    assert document.problems == ("it has more than 5000 operations; the others are not listed",)
    picked = [operation.operation for operation in document.operations[:1000]]
    routes = await build_routes(replace(document, body=build_large_document(1000, 10)), picked)
    assert len({route.name for route in routes}) == 1000


def build_large_document(operations: int, summary_chars: int) -> bytes:
    parameter = {"name": "id", "in": "path", "required": True}
    operation = {"summary": "x" * summary_chars, "parameters": [parameter]}
    paths = {f"/things/{number}/{{id}}": {"get": operation} for number in range(operations)}
    return json.dumps({"openapi": "3.0.3", "info": {}, "paths": paths}).encode()
