"""Documents read as in the house: in a process of its own, and their tools asked over HTTP."""

import json
import subprocess
import sys

import pytest
from starlette.responses import Response

from tests.support.http_service import RecordedRequest, redirect_response, running_http_service
from tests.support.openapi_documents import MERGE_BOMB_YAML, SHIPYARD_YAML
from tools.arguments import check_arguments
from tools.base import Rule
from tools.http.service import Credentials, HttpService
from tools.http.tools import make_route_tool
from tools.openapi import documents
from tools.openapi.documents import build_routes, fetch_document, read_document
from tools.sandbox.process import SandboxLimits
from tools.schemas.signature import ToolDefinitionError

URL = "https://ships.test/docs/openapi.yaml"


async def test_operations_become_tools_that_call_the_service(context):
    async with running_http_service() as desk:
        desk.responses["/openapi"] = redirect_response("/docs/openapi.yaml")
        desk.responses["/docs/openapi.yaml"] = Response(SHIPYARD_YAML, media_type="text/yaml")
        document = await fetch_document(desk.url_for("api.test", "/openapi"), policy=desk.network_policy())
        private = desk.network_policy("api.test")
        service = HttpService(
            "shipyard", frozenset({document.host}), Credentials({}, {"api_key": "secret"}), private
        )
        picked = ["showShip", "put /ships/{shipId}", "add_ship", "countShips", "writeLog", "mixLog"]
        tools = {
            route.name: make_route_tool(route, service) for route in await build_routes(document, picked)
        }

        async def call(tool: str, **arguments: object) -> tuple[RecordedRequest, str]:
            before = len(desk.requests)
            told = await tools[tool].function(check_arguments(tools[tool], arguments), context)
            return desk.requests[before], str(told)

        show, _ = await call(
            "show_ship", shipId="3", fields=["name", "no"], filter={"flag": None}, X_Trace="t", near=[1.5]
        )
        paint, _ = await call("paint_ship", shipId=3, name="Ann", shipId_body="old", tender={"name": "Tug"})
        add, _ = await call("add_ship", name="Ann & Bob", launched="2020-01-01")
        _, counted = await call("count_ships")
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
    assert counted.startswith("200 OK")
    assert (log.headers["content-type"], log.body) == ("text/plain", "wörds")
    assert (mix.headers["content-type"], mix.body, bare.body) == ("application/merge-patch+json", '["a"]', "")
    assert [tool.changes for tool in tools.values()] == [False, True, True, False, True, True]
    assert tools["paint_ship"].rule == Rule("always")
    assert "content-type" not in bare.headers


async def test_documents_that_keep_a_processor_busy_are_given_up(monkeypatch):
    monkeypatch.setattr(documents, "READ_LIMITS", SandboxLimits(wall_seconds=20, cpu_seconds=1))
    tower = "\n".join(f"{' ' * n}a:" for n in range(3000))
    for body in (b"a: " + b"{a: " * 300_000, tower.encode(), MERGE_BOMB_YAML.encode()):
        with pytest.raises(ToolDefinitionError, match=r"^The document cannot be (read|used): .{5,200}\.$"):
            await read_document(body, URL)
    with pytest.raises(ToolDefinitionError, match="larger than 5 MB"):
        await read_document("x" * documents.MAX_DOCUMENT_BYTES, URL)


def test_what_reads_documents_never_enters_the_process_that_offers_the_tools():
    seen = "import sys, tools.openapi.documents; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert "'tools.openapi.worker'" in modules
    assert "'openapi_pydantic" not in modules
    assert "'yaml'" not in modules
