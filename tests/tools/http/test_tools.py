"""Tools of routes: what they send, what they check, and when they ask."""

import json
from dataclasses import replace

import pytest
from starlette.responses import Response

from tests.support.http_service import (
    call_tool,
    redirect_response,
    running_http_service,
    ship_tool,
)
from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Rule, ToolError, hash_tool
from tools.http.routes import Body, build_endpoint_route
from tools.http.service import (
    Credentials,
    FixedArgument,
    HttpService,
)
from tools.http.tools import make_route_tool
from tools.registry import render_definitions
from tools.schemas.signature import ToolDefinitionError


async def test_an_argument_that_is_an_address_is_marked_as_one():
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "url": {"type": "string"}}}
    async with running_http_service() as harness:
        service = HttpService(
            "short", frozenset({harness.host_and_port("api.test")}), Credentials(), harness.network_policy()
        )
        route = build_endpoint_route(
            "shorten", "Make it short.", "GET", harness.url_for("api.test", "/short"), schema
        )
    assert make_route_tool(route, service).opens == "url"


async def test_a_safe_request_carries_its_arguments_encoded_and_nothing_else(context):
    async with running_http_service() as harness:
        tool = ship_tool(harness)
        received = json.loads(
            await call_tool(tool, context, id="a/b ?#&é", tags=["x&y", "z"], deep={"k": 1}, days="2")
        )
    assert (tool.repeatable, tool.changes, tool.rule, tool.outside, tool.source) == (
        True,
        False,
        Rule(),
        True,
        "shipyard",
    )
    assert received["path"] == "/ships/a%2Fb%20%3F%23%26%C3%A9"
    assert received["query"] == "tags=x%26y&tags=z&k=1&days=2"
    assert harness.requests[0].headers["host"] == harness.host_and_port("api.test")
    assert not {"cookie", "authorization", "idempotency-key", "content-type"} & set(
        harness.requests[0].headers
    )


async def test_where_values_are_sent_is_told_in_words_and_is_no_part_of_the_hash():
    async with running_http_service() as harness:
        tool = ship_tool(harness)
    assert tool.sends["id"] == "in the path as id"
    assert tool.sends["tags"] == "in the query as tags"
    assert set(tool.sends) == set(tool.input_schema["properties"])
    assert hash_tool(tool) == hash_tool(replace(tool, sends={}))
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    route = build_endpoint_route("post", "Post.", "POST", "https://api.test/", schema)
    assert route.describe_places(["text", "gone"]) == {"text": "in the body (application/json) as text"}
    raw = replace(route, body=Body("text/plain", "text"))
    assert raw.describe_places(["text"]) == {"text": "as the body (text/plain)"}


async def test_the_schema_shown_to_the_model_and_the_one_for_checking_differ():
    async with running_http_service() as harness:
        tool = ship_tool(harness)
    assert render_definitions([tool])[0]["parameters"]["properties"]["days"] == {
        "description": "at least 1; default 3",
        "type": "integer",
    }
    assert tool.told is not None
    assert tool.told["required"] == ["id"]  # days has a default, which is filled in
    with pytest.raises(ArgumentsRefused, match="days of ship does not fit"):
        check_arguments(tool, {"id": "a", "days": 0})
    with pytest.raises(ArgumentsRefused, match="ship needs id"):
        check_arguments(tool, {"days": 1})


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_what_changes_something_asks_first_and_carries_a_key(context, method):
    async with running_http_service() as harness:
        tool = ship_tool(harness, method)
        received = json.loads(await call_tool(tool, context, id="7", days=1, deep={"a": [1, None]}))
    assert (tool.repeatable, tool.changes, tool.rule) == (False, True, Rule("always"))
    assert json.loads(received["body"]) == {"days": 1, "deep": {"a": [1, None]}}
    assert harness.requests[0].headers["content-type"] == "application/json"
    assert harness.requests[0].headers["idempotency-key"] == context.key


async def test_delete_and_head_need_no_body(context):
    async with running_http_service() as harness:
        harness.responses["/ships/7"] = Response(status_code=204)
        assert (
            await call_tool(ship_tool(harness, "DELETE"), context, id="7", days=1)
            == "Done (204 No Content). The answer is empty."
        )
        harness.responses["/ships/8"] = Response("x", media_type="text/plain", headers={"etag": "v1"})
        text = await call_tool(ship_tool(harness, "HEAD"), context, id="8", days=1)
    assert text == "200 OK\ncontent-type: text/plain; charset=utf-8\ncontent-length: 1\netag: v1"
    assert harness.requests[0].query == "days=1"
    assert harness.requests[0].headers["idempotency-key"]
    assert [request.body for request in harness.requests] == ["", ""]


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "..\\x", "%2e%2e/" + "..", "/..", ""])
async def test_a_value_never_leads_to_another_path(context, value):
    async with running_http_service() as harness:
        with pytest.raises(ToolError, match=r"not sent|must not be empty"):
            await call_tool(ship_tool(harness), context, id=value, days=1)
    assert harness.requests == []


async def test_a_value_that_is_encoded_twice_stays_a_value(context):
    async with running_http_service() as harness:
        await call_tool(ship_tool(harness), context, id="%2e%2e", days=1)
    assert harness.requests[0].path == "/ships/%252e%252e"


async def test_secrets_are_not_arguments_for_the_model(context):
    schema = {
        "type": "object",
        "properties": {"appid": {"type": "string"}, "q": {"type": "string"}},
        "required": ["appid"],
    }
    async with running_http_service() as harness:
        policy = harness.network_policy("api.test")
        service = HttpService(
            "s", frozenset({harness.host_and_port("api.test")}), Credentials({}, {"appid": "secret"}), policy
        )
        tool = make_route_tool(
            build_endpoint_route("find", "Finds.", "GET", harness.url_for("api.test", "/find"), schema),
            service,
        )
        await call_tool(tool, context, q="x")
    assert harness.requests[0].query == "q=x&appid=secret"
    assert tool.told is not None
    assert list(tool.told["properties"]) == ["q"]


def test_a_secret_that_no_header_carries_is_refused_without_showing_it():
    route = build_endpoint_route("x", "X.", "GET", "https://a.test/", {})
    with pytest.raises(ToolDefinitionError, match="enter it again") as refused:
        make_route_tool(route, HttpService("s", frozenset({"a.test"}), Credentials({"k": "päss\nword"})))
    assert "ss" not in str(refused.value).replace("ASCII", "")


def test_a_tool_needs_confirmed_hosts_and_encryption_for_secrets():
    route = build_endpoint_route("x", "X.", "GET", "http://a.test/", {})
    with pytest.raises(ToolDefinitionError, match=r"asked of a\.test, which nobody has confirmed"):
        make_route_tool(route, HttpService("s", frozenset({"b.test"})))
    with pytest.raises(ToolDefinitionError, match="secrets unencrypted"):
        make_route_tool(route, HttpService("s", frozenset({"a.test"}), Credentials({"k": "v"})))
    assert make_route_tool(route, HttpService("s", frozenset({"a.test"}))).address == "GET http://a.test/"


def fix(name: str, text: str, *secrets: str) -> FixedArgument:
    return FixedArgument(name, text, f"{{{name}}}" if secrets else text, secrets)


async def test_fixed_arguments_are_sent_and_the_model_neither_sees_nor_overrides_them(context):
    async with running_http_service() as harness:
        fixed = {
            "id": fix("id", "AC7"),
            "days": fix("days", "5"),
            "deep": fix("deep", "hidden-text", "hidden-text"),
        }
        tool = ship_tool(harness, fixed=fixed, policy=harness.network_policy("api.test"))
        assert tool.told is not None
        assert list(tool.told["properties"]) == list(tool.input_schema["properties"]) == ["tags"]
        assert tool.told.get("required", []) == []
        assert tool.fixed == {"id": "AC7", "days": "5", "deep": "{deep}"}
        with pytest.raises(ArgumentsRefused, match='ship has no argument "id"'):
            await call_tool(tool, context, id="other")
        text = await tool.function({"id": "other", "days": 1, "tags": ["a"]}, context)
    assert harness.requests[0].path == "/ships/AC7"
    assert harness.requests[0].query == "tags=a&deep=hidden-text&days=5"
    assert "hidden-text" not in str(text)
    assert "hidden-text" not in repr(tool)


async def test_a_fixed_argument_is_a_field_of_a_body_with_its_type(context):
    async with running_http_service() as harness:
        tool = ship_tool(harness, "POST", fixed={"days": fix("days", "5")})
        received = json.loads(await call_tool(tool, context, id="7"))
    assert json.loads(received["body"]) == {"days": 5}


async def test_an_object_cannot_bring_a_name_of_the_query_that_is_set(context):
    async with running_http_service() as harness:
        tool = ship_tool(
            harness,
            credentials=Credentials(query={"key": "k-secret"}),
            policy=harness.network_policy("api.test"),
        )
        with pytest.raises(ToolError, match="deep must not have key: it is set already"):
            await call_tool(tool, context, id="7", days=1, deep={"key": "mine"})
    assert harness.requests == []


def test_a_fixed_argument_must_fit():
    route = build_endpoint_route(
        "x", "X.", "GET", "https://a.test/", {"type": "object", "properties": {"n": {"type": "integer"}}}
    )
    service = HttpService("s", frozenset({"a.test"}), fixed={"n": fix("n", "many")})
    with pytest.raises(
        ToolDefinitionError, match="a fixed argument does not fit: n of x must be a whole number"
    ):
        make_route_tool(route, service)


ACCOUNT = {"type": "object", "properties": {"account": {"type": "string"}}}


@pytest.mark.parametrize("schema", [ACCOUNT, {"oneOf": [{"type": "string"}, {"anyOf": [ACCOUNT]}]}])
def test_an_argument_that_is_a_part_of_a_whole_body_cannot_be_fixed(schema):
    arguments = {"type": "object", "properties": {"body": schema}}
    route = build_endpoint_route("x", "X.", "POST", "https://a.test/", arguments)
    route = replace(route, body=Body("application/json", "body"))
    service = HttpService("s", frozenset({"a.test"}), fixed={"account": fix("account", "mine")})
    with pytest.raises(ToolDefinitionError, match="account cannot be fixed in x, whose body"):
        make_route_tool(route, service)
    make_route_tool(route, replace(service, fixed={"colour": fix("colour", "red")}))


def test_a_secret_in_an_argument_goes_unencrypted_nowhere():
    route = build_endpoint_route("x", "X.", "GET", "http://a.test/", {})
    service = HttpService("s", frozenset({"a.test"}), fixed={"n": fix("n", "secret-text", "secret-text")})
    with pytest.raises(ToolDefinitionError, match="secrets unencrypted"):
        make_route_tool(route, service)


async def test_cookies_and_basic_are_sent_masked_and_never_after_a_redirect_elsewhere(context):
    credentials = Credentials(basic="ann:pass-word", cookies={"sid": "cookie-text"})
    async with running_http_service() as harness:
        tool = ship_tool(
            harness, credentials=credentials, policy=harness.network_policy("api.test", "other.test")
        )
        harness.responses["/ships/8"] = redirect_response(harness.url_for("other.test", "/echo"))
        harness.responses["/ships/9"] = Response("no cookie-text pass-word YW5uOnBhc3Mtd29yZA==", 401)
        await call_tool(tool, context, id="7", days=1)
        await call_tool(tool, context, id="8", days=1)
        with pytest.raises(ToolError, match=r"401 Unauthorized: no ••• ••• •••$"):
            await call_tool(tool, context, id="9", days=1)
    assert harness.requests[0].headers["cookie"] == "sid=cookie-text"
    assert harness.requests[0].headers["authorization"] == "Basic YW5uOnBhc3Mtd29yZA=="
    assert harness.requests[2].path == "/echo"
    assert not {"cookie", "authorization"} & set(harness.requests[2].headers)


@pytest.mark.parametrize("text", ["a;b", "a b", 'a"b'])
def test_a_secret_that_no_cookie_carries_is_refused(text):
    route = build_endpoint_route("x", "X.", "GET", "https://a.test/", {})
    with pytest.raises(ToolDefinitionError, match="no cookie can carry"):
        make_route_tool(route, HttpService("s", frozenset({"a.test"}), Credentials(cookies={"c": text})))
