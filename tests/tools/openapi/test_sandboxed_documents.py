"""Documents read as in the house: in a process of its own, and their tools asked over HTTP."""

import json
import subprocess
import sys

import pytest
from starlette.responses import Response

from tests.support.http_service import Heard, open_desk, redirect
from tests.support.openapi_documents import MERGING, SHIPS
from tools.arguments import check
from tools.base import Rule
from tools.http.service import Secrets, Service
from tools.http.tools import tool_of
from tools.openapi import documents
from tools.openapi.documents import fetch_document, read_document, routes_of
from tools.sandbox.process import Limits
from tools.schemas.signature import ToolDefinitionError

URL = "https://ships.test/docs/openapi.yaml"


async def test_operations_become_tools_that_call_the_service(context):
    async with open_desk() as desk:
        desk.answers["/openapi"] = redirect("/docs/openapi.yaml")
        desk.answers["/docs/openapi.yaml"] = Response(SHIPS, media_type="text/yaml")
        document = await fetch_document(desk.at("api.test", "/openapi"), reach=desk.reach())
        private = desk.reach("api.test")
        service = Service("shipyard", frozenset({document.host}), Secrets({}, {"api_key": "secret"}), private)
        picked = ["showShip", "put /ships/{shipId}", "add_ship", "countShips", "writeLog", "mixLog"]
        tools = {route.name: tool_of(route, service) for route in await routes_of(document, picked)}

        async def call(tool: str, **arguments: object) -> tuple[Heard, str]:
            before = len(desk.heard)
            told = await tools[tool].function(check(tools[tool], arguments), context)
            return desk.heard[before], str(told)

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
    monkeypatch.setattr(documents, "READING", Limits(seconds=20, processor=1))
    tower = "\n".join(f"{' ' * n}a:" for n in range(3000))
    for body in (b"a: " + b"{a: " * 300_000, tower.encode(), MERGING.encode()):
        with pytest.raises(ToolDefinitionError, match=r"^The document cannot be (read|used): .{5,200}\.$"):
            await read_document(body, URL)
    with pytest.raises(ToolDefinitionError, match="larger than 5 MB"):
        await read_document("x" * documents.BYTES, URL)


def test_what_reads_documents_never_enters_the_process_that_offers_the_tools():
    seen = "import sys, tools.openapi.documents; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert "'tools.openapi.worker'" in modules
    assert "'openapi_pydantic" not in modules
    assert "'yaml'" not in modules
