"""OpenAPI documents: fetched, listed to pick from, and made into routes and tools."""

import gzip
import json

import pytest
from starlette.responses import Response

from tests.support.http_service import running_http_service
from tests.support.openapi_documents import (
    SHIPYARD_YAML,
    billion_laughs_yaml,
    build_routes,
    changed_small_document,
)
from tools.arguments import ArgumentsRefused, check_arguments
from tools.http.routes import route_from_json
from tools.http.service import Credentials, HttpService
from tools.http.tools import make_route_tool
from tools.openapi import documents
from tools.openapi.documents import build_usable_routes, fetch_document, read_document
from tools.openapi.servers import ServerSettings
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
    assert document.host == "ships.test"
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
        "the header Accept is left out: the gateway sets it",
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
        ([], "Pick between one and 1000 operations at once, not 0"),
        (["showShip"] * 1001, "Pick between one and 1000 operations at once, not 1001"),
        (["sail"], "there is no operation 'sail' in it"),
        (
            ["sendPhoto"],
            "The operation sendPhoto cannot be used: its body is multipart/form-data without named parts",
        ),
        (["askBroken"], r"The operation askBroken cannot be used: its parameter 'x' is not correct \(in: "),
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


async def test_operations_that_would_share_a_name_get_names_of_their_own():
    long = "listNamespacedPodTemplatesForAllNamespacesOfTheClusterAndWatch"
    twice = {
        "/a": {"get": {"operationId": "get-it"}},
        "/b": {"get": {"operationId": "getIt"}},
        "/c": {"get": {"operationId": f"{long}Events"}, "post": {"operationId": f"{long}Changes"}},
        "/d": {"get": {"operationId": "shopStatus"}},
    }
    document = await read_document(changed_small_document("paths", value=twice), URL)
    routes = await build_routes(document, [o.operation for o in document.operations], prefix="shop_")
    names = [route.name for route in routes]
    assert names[:2] == ["shop_get_it", "shop_get_it_2"]
    assert names[2] != names[3]
    assert names[3].startswith("shop_list_namespaced_pod_templat")
    assert names[3].endswith("and_watch_changes")
    assert all(len(name) <= 64 for name in names)
    assert names[4] == "shop_status"
    assert routes[1].reported == ("another operation is shop_get_it, so getIt is shop_get_it_2",)
    known = {"getIt": "shop_get_it", "get-it": "shop_old"}
    kept = await build_usable_routes(document, ["get-it", "getIt"], "shop_", known)
    assert [route.name for route in kept.routes] == ["shop_old", "shop_get_it"]


async def test_an_operation_id_of_two_operations_picks_none():
    same = {"/a": {"get": {"operationId": "x"}, "post": {"operationId": "x"}}}
    document = await read_document(changed_small_document("paths", value=same), URL)
    assert document.problems == ("x is the name of 2 operations; none can be picked by it",)
    with pytest.raises(ToolDefinitionError, match="there is no operation 'x'"):
        await build_routes(document, ["x"])
    assert [route.method for route in await build_routes(document, ["POST /a"])] == ["POST"]
    listed = [operation.operation for operation in document.operations]
    assert listed == ["GET /a", "POST /a"]
    assert [route.name for route in await build_routes(document, listed)] == ["get_a", "post_a"]


async def test_an_operation_id_that_is_the_method_and_path_of_another_operation_picks_none():
    alike = {"/a": {"get": {}}, "/b": {"post": {"operationId": "GET /a"}}}
    document = await read_document(changed_small_document("paths", value=alike), URL)
    assert [operation.operation for operation in document.operations] == ["GET /a", "POST /b"]
    [route] = await build_routes(document, ["GET /a"])
    assert route.method == "GET"


async def test_a_schema_that_refers_to_itself_is_told_to_a_depth():
    node = {"$ref": "#/components/schemas/Node"}
    schemas = {
        "Node": {"type": "object", "properties": {"name": {"type": "string"}, "parent": node}},
        "Loop": {"$ref": "#/components/schemas/Loop"},
    }
    body = {"content": {"application/json": {"schema": node}}}
    loop = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Loop"}}}}
    small = json.loads(changed_small_document("components", value={"schemas": schemas}))
    small["paths"] = {
        "/node": {"post": {"operationId": "node", "requestBody": body}},
        "/loop": {"post": {"operationId": "loop", "requestBody": loop}},
    }
    document = await read_document(json.dumps(small), URL)
    selection = await build_usable_routes(document, ["node", "loop"])
    assert "name" in selection.routes[0].checked["properties"]
    assert {*selection.rejections, *(route.operation for route in selection.routes)} == {"node", "loop"}


async def test_a_document_is_read_from_a_file(tmp_path):
    path = tmp_path / "my ships.yaml"
    path.write_text(SHIPYARD_YAML)
    document = await documents.load_document_file(path.as_uri())
    assert (document.host, document.foreign_hosts) == ("", ("other.test",))
    assert document.unusable["showShip"].startswith(
        "its server '/v1' is only a path, and the document is a file: say where it is with a base URL"
    )
    settings = ServerSettings("https://ships.test/v1")
    document = await documents.load_document_file(path.as_uri(), settings=settings)
    [route] = await build_routes(document, ["showShip"])
    assert route.address == "https://ships.test/v1/ships/{shipId}"
    with pytest.raises(ToolDefinitionError, match="none cannot be read: No such file"):
        await documents.load_document_file((tmp_path / "none").as_uri())


async def test_operations_that_cannot_be_picked_have_their_reason():
    paths = {
        "/a": {"get": {"servers": [{"url": "ftp://x.test"}], "operationId": "getA"}, "trace": {}},
        "b": {"get": {"operationId": "getB"}},
        "/c": {"get": {"operationId": "getC"}},
    }
    document = await read_document(changed_small_document("paths", value=paths), URL)
    assert [operation.operation for operation in document.operations] == ["getC"]
    assert document.unusable == {
        "TRACE /a": "its method TRACE is not called",
        "getB": "its path 'b' does not begin with /",
        "getA": "its server 'ftp://x.test' cannot be used: Only addresses that begin with http:// or "
        "https:// can be asked, not 'ftp://x.test'.",
    }


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
        ("http://api.test:{port}/bomb", "larger than 50 MB"),
        ("http://api.test:{port}/page", "something else"),
    ],
)
async def test_a_document_that_cannot_be_fetched_is_reported(address, complaint):
    async with running_http_service() as harness:
        harness.responses["/none"] = Response("no", 404)
        bomb = gzip.compress(b" " * (documents.MAX_DOCUMENT_BYTES + 10), 1)
        harness.responses["/bomb"] = Response(bomb, headers={"content-encoding": "gzip"})
        harness.responses["/page"] = Response("<html></html>")
        with pytest.raises(ToolDefinitionError, match=complaint):
            await fetch_document(
                address.format(port=harness.port), policy=harness.network_policy(inside_test=["10.0.0.1"])
            )


async def test_secrets_go_unencrypted_to_no_public_host_of_a_document():
    async with running_http_service() as harness:
        harness.responses["/openapi"] = Response(SHIPYARD_YAML, media_type="text/yaml")
        address = harness.url_for("api.test", "/openapi")
        credentials = Credentials({"X-Key": "secret-text"})
        with pytest.raises(
            ToolDefinitionError, match="would be asked for with secrets unencrypted: register"
        ):
            await fetch_document(address, credentials=credentials, policy=harness.network_policy())
        assert harness.requests == []
        private = harness.network_policy("api.test")
        assert (await fetch_document(address, credentials=credentials, policy=private)).operations
    assert harness.requests[0].headers["x-key"] == "secret-text"


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
