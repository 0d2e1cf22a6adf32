"""OpenAPI documents: fetched, listed to pick from, and made into routes and tools."""

import json

import pytest
from starlette.responses import Response

from tests.support.http_service import running_http_service
from tests.support.openapi_documents import (
    SHIPYARD_YAML,
    billion_laughs_yaml,
    changed_small_document,
)
from tools.arguments import ArgumentsRefused, check_arguments
from tools.http.routes import route_from_json
from tools.http.service import HttpService
from tools.http.tools import make_route_tool
from tools.openapi import documents
from tools.openapi.documents import build_routes, build_usable_routes, fetch_document, read_document
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema

URL = "https://ships.test/docs/openapi.yaml"


@pytest.fixture(autouse=True)
def _no_sandbox(monkeypatch):
    """Reads documents in this process, which is faster; test_sandboxed_documents.py has the real one."""

    async def run_here(function, body, limits, **arguments):
        return json.loads(json.dumps(function(body, **arguments)))

    monkeypatch.setattr(documents, "run_in_sandbox", run_here)


async def test_a_document_is_listed_to_pick_from():
    document = await read_document(SHIPYARD_YAML, URL)
    assert (document.title, document.version, document.host) == ("Shipyard", "3.0.3", "ships.test")
    listed = {operation.operation: operation for operation in document.operations}
    assert list(listed) == [
        *(
            "showShip",
            "paint-ship",
            "DELETE /ships/{shipId}",
            "countShips",
            "addShip",
            "writeLog",
            "sendPhoto",
            "mixLog",
        ),
        *("lookElsewhere", "askBroken"),
    ]
    show = listed["showShip"]
    assert (show.method, show.path, show.name, show.summary, show.host) == (
        *("GET", "/ships/{shipId}", "show_ship", "Show a ship", "ships.test"),
    )
    assert listed["DELETE /ships/{shipId}"].name == "delete_ships_ship_id"
    assert document.foreign_hosts == ("other.test",)
    assert tuple(need.text for need in document.auth_needs) == (
        "a key in the cookie `c`",
        "a key in the query `api_key`",
        "a name and a password",
        "a token as Bearer",
        "a token as Bearer, which you have to obtain yourself (OAuth)",
    )
    assert document.problems == ()
    assert "paths" not in repr(document)


async def test_an_operation_as_it_is_shown_to_the_model():
    document = await read_document(SHIPYARD_YAML, URL)
    show, paint = await build_routes(document, ["showShip", "paint-ship"], prefix="yard_")
    assert (show.name, show.description, show.address) == (
        *("yard_show_ship", "Show a ship with its crew.", "https://ships.test/v1/ships/{shipId}"),
    )
    told = build_told_schema(show.checked).schema
    assert told["properties"]["shipId"] == {"description": "Which (more than 0)", "type": "integer"}
    assert told["properties"]["fields"]["items"]["enum"] == ["no", "yes", "name"]
    assert told["required"] == ["shipId"]
    assert show.reported[:2] == (
        "the header Accept is left out: it is the house's to set",
        "the cookie spy is left out: cookies are not asked of the model, they are somebody's login; "
        "give it as a secret (--cookie)",
    )
    assert paint.description == "PUT /ships/{shipId} of Shipyard."
    told = build_told_schema(paint.checked).schema
    assert told["properties"]["launched"] == {
        "description": "YYYY-MM-DD; for example 2020-01-01",
        "type": "string",
    }
    assert set(told["properties"]) == {"shipId", "shipId_body", "name", "launched", "tender"}
    assert sorted(told["required"]) == ["name", "shipId"]
    assert route_from_json(json.loads(json.dumps(paint.as_json()))) == paint


async def test_a_foreign_host_must_be_confirmed_by_an_admin():
    document = await read_document(SHIPYARD_YAML, URL)
    [route] = await build_routes(document, ["lookElsewhere"])
    assert route.address == "https://other.test/api/elsewhere"
    with pytest.raises(ToolDefinitionError, match=r"asked of other\.test, which nobody has confirmed"):
        make_route_tool(route, HttpService("s", frozenset({document.host})))
    assert make_route_tool(route, HttpService("s", frozenset({document.host, *document.foreign_hosts})))


@pytest.mark.parametrize(
    ("picked", "complaint"),
    [
        ([], "Pick between one and 100"),
        (["showShip"] * 101, "Pick between one and 100"),
        (["sail"], "there is no operation 'sail' in it; it has showShip, paint-ship"),
        (
            ["sendPhoto"],
            "The operation sendPhoto cannot be used: its body is multipart/form-data; JSON, forms and",
        ),
        (["askBroken"], r"The operation askBroken cannot be used: its parameter 'x' is not correct \(in: "),
        (["showShip", "show_ship"], "showShip and showShip would both be called show_ship"),
    ],
)
async def test_an_operation_that_cannot_be_picked_is_refused_with_the_reason(picked, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        await build_routes(await read_document(SHIPYARD_YAML, URL), picked)


async def test_usable_operations_become_routes_and_the_others_are_reported():
    selection = await build_usable_routes(
        await read_document(SHIPYARD_YAML, URL), ["showShip", "sendPhoto", "addShip"]
    )
    assert [route.operation for route in selection.routes] == ["showShip", "addShip"]
    assert list(selection.rejections) == ["sendPhoto"]


async def test_operations_that_share_a_name_are_refused_with_both_named():
    twice = {
        "/a": {"get": {"operationId": "get-it"}},
        "/b": {"get": {"operationId": "getIt"}},
        "/c": {"get": {}},
    }
    document = await read_document(changed_small_document("paths", value=twice), URL)
    with pytest.raises(
        ToolDefinitionError, match=r"get-it and getIt would both be called get_it; pick one of them\."
    ):
        await build_routes(document, ["get-it", "getIt"])
    same = {"/a": {"get": {"operationId": "x"}, "post": {"operationId": "x"}}}
    document = await read_document(changed_small_document("paths", value=same), URL)
    assert document.problems == ("x is the name of 2 operations; none can be picked by it",)
    with pytest.raises(ToolDefinitionError, match="'x' may be GET /a and POST /a"):
        await build_routes(document, ["x"])
    assert [route.method for route in await build_routes(document, ["POST /a"])] == ["POST"]
    listed = [operation.operation for operation in document.operations]
    assert listed == ["GET /a", "POST /a"]
    assert [route.name for route in await build_routes(document, listed)] == ["get_a", "post_a"]


async def test_a_document_that_expands_without_end_is_cut_and_reported():
    document = await read_document(billion_laughs_yaml(40), URL)
    [route] = await build_routes(document, ["doIt"])
    assert any("too large" in text for text in route.reported)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("file:///etc/passwd", "begin with http"),
        ("http://api.test:1/x", "could not be asked|does not answer"),
        ("http://inside.test/x", "inside.test is not on the public internet"),
        ("nonsense", "begin with http"),
        ("http://api.test:{port}/none", "answered 404 Not Found, no document"),
        ("http://api.test:{port}/large", "larger than 5 MB"),
        ("http://api.test:{port}/page", "something else"),
    ],
)
async def test_a_document_that_cannot_be_fetched_is_reported(address, complaint):
    async with running_http_service() as harness:
        harness.responses["/none"] = Response("no", 404)
        harness.responses["/large"] = Response(b" " * (documents.MAX_DOCUMENT_BYTES + 10))
        harness.responses["/page"] = Response("<html></html>")
        with pytest.raises(ToolDefinitionError, match=complaint):
            await fetch_document(
                address.format(port=harness.port), policy=harness.network_policy(inside_test=["10.0.0.1"])
            )


async def test_the_address_of_a_document_must_be_valid():
    with pytest.raises(ToolDefinitionError, match="name or password"):
        await read_document(SHIPYARD_YAML, "https://me:pw@ships.test/")


async def test_original_limits_hold_for_arguments():
    [route] = await build_routes(await read_document(SHIPYARD_YAML, URL), ["paint-ship"])
    tool = make_route_tool(route, HttpService("s", frozenset({"ships.test"})))
    assert tool.told == build_told_schema(route.checked).schema
    for arguments in ({"shipId": 0, "name": "a"}, {"shipId": 1, "name": "a" * 21}, {"shipId": 1}):
        with pytest.raises(ArgumentsRefused):
            check_arguments(tool, arguments)
