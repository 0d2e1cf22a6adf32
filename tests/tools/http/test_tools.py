import asyncio
import gzip
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.responses import Response

from tests.support.http_service import (
    HttpServiceHarness,
    endless_response,
    redirect_response,
    running_http_service,
)
from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Rule, Tool, ToolContext, ToolError
from tools.http import service as services
from tools.http.requests import build_request
from tools.http.responses import render_response
from tools.http.routes import build_endpoint_route, route_from_json
from tools.http.service import Credentials, HttpRequest, HttpResponse, HttpService
from tools.http.tools import make_route_tool
from tools.net.policy import NetworkPolicy
from tools.registry import render_definitions
from tools.schemas.signature import ToolDefinitionError

API_KEY = "k-1234567890"
SHIP_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Which."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "deep": {"type": "object"},
        "days": {"type": "integer", "minimum": 1, "default": 3},
    },
    "required": ["days"],
}


def ship_tool(
    harness: HttpServiceHarness,
    method: str = "GET",
    path: str = "/ships/{id}",
    credentials: Credentials | None = None,
    **more: Any,
) -> Tool:
    service = HttpService(
        "shipyard",
        frozenset({harness.host_and_port("api.test")}),
        credentials or Credentials(),
        harness.network_policy(),
    )
    service = replace(service, **more)
    return make_route_tool(
        build_endpoint_route("ship", "About a ship.", method, harness.url_for("api.test", path), SHIP_SCHEMA),
        service,
    )


async def call_tool(tool: Tool, context: ToolContext, **arguments: object) -> Any:
    return await tool.function(check_arguments(tool, arguments), context)


async def test_an_argument_that_is_an_address_is_judged_as_one():
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "url": {"type": "string"}}}
    async with running_http_service() as desk:
        service = HttpService(
            "short", frozenset({desk.host_and_port("api.test")}), Credentials(), desk.network_policy()
        )
        route = build_endpoint_route(
            "shorten", "Make it short.", "GET", desk.url_for("api.test", "/short"), schema
        )
    assert make_route_tool(route, service).opens == "url"


async def test_a_question_carries_its_arguments_encoded_and_nothing_else(context):
    async with running_http_service() as desk:
        tool = ship_tool(desk)
        told = json.loads(
            await call_tool(tool, context, id="a/b ?#&é", tags=["x&y", "z"], deep={"k": 1}, days="2")
        )
    assert (tool.repeatable, tool.changes, tool.rule, tool.outside, tool.source) == (
        True,
        False,
        Rule(),
        True,
        "shipyard",
    )
    assert told["path"] == "/ships/a%2Fb%20%3F%23%26%C3%A9"
    assert told["query"] == "tags=x%26y&tags=z&k=1&days=2"
    assert desk.requests[0].headers["host"] == desk.host_and_port("api.test")
    assert not {"cookie", "authorization", "idempotency-key", "content-type"} & set(desk.requests[0].headers)


async def test_what_the_model_is_told_and_what_is_checked_differ():
    async with running_http_service() as desk:
        tool = ship_tool(desk)
    assert render_definitions([tool])[0]["function"]["parameters"]["properties"]["days"] == {
        "description": "at least 1; default 3",
        "type": "integer",
    }
    assert tool.told is not None
    assert tool.told["required"] == ["days", "id"]
    with pytest.raises(ArgumentsRefused, match="days of ship does not fit"):
        check_arguments(tool, {"id": "a", "days": 0})
    with pytest.raises(ArgumentsRefused, match="ship needs id"):
        check_arguments(tool, {"days": 1})


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_what_changes_something_asks_first_and_carries_a_key(context, method):
    async with running_http_service() as desk:
        tool = ship_tool(desk, method)
        told = json.loads(await call_tool(tool, context, id="7", days=1, deep={"a": [1, None]}))
    assert (tool.repeatable, tool.changes, tool.rule) == (False, True, Rule("always"))
    assert json.loads(told["body"]) == {"days": 1, "deep": {"a": [1, None]}}
    assert desk.requests[0].headers["content-type"] == "application/json"
    assert desk.requests[0].headers["idempotency-key"] == context.key


async def test_deleting_and_looking_need_no_body(context):
    async with running_http_service() as desk:
        desk.responses["/ships/7"] = Response(status_code=204)
        assert (
            await call_tool(ship_tool(desk, "DELETE"), context, id="7", days=1)
            == "Done (204 No Content). The answer is empty."
        )
        desk.responses["/ships/8"] = Response("x", media_type="text/plain", headers={"etag": "v1"})
        told = await call_tool(ship_tool(desk, "HEAD"), context, id="8", days=1)
    assert told == "200 OK\ncontent-type: text/plain; charset=utf-8\ncontent-length: 1\netag: v1"
    assert desk.requests[0].query == "days=1"
    assert desk.requests[0].headers["idempotency-key"]
    assert [each.body for each in desk.requests] == ["", ""]


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "..\\x", "%2e%2e/" + "..", "/..", ""])
async def test_a_value_never_leads_to_another_path(context, value):
    async with running_http_service() as desk:
        with pytest.raises(ToolError, match=r"not sent|must not be empty"):
            await call_tool(ship_tool(desk), context, id=value, days=1)
    assert desk.requests == []


async def test_a_value_that_is_encoded_twice_stays_a_value(context):
    async with running_http_service() as desk:
        await call_tool(ship_tool(desk), context, id="%2e%2e", days=1)
    assert desk.requests[0].path == "/ships/%252e%252e"


CREDENTIALS = Credentials({"X-Key": API_KEY, "Authorization": "Bearer t0ken-of-ours"}, {"appid": "q&secret"})


async def test_secrets_go_to_the_services_own_hosts_only(context):
    async with running_http_service() as desk:
        private = desk.network_policy(desk.host_and_port("api.test"))
        desk.responses["/ships/1"] = redirect_response(desk.url_for("other.test", "/there"))
        desk.responses["/ships/2"] = redirect_response("/here?a=1")
        tool = ship_tool(desk, credentials=CREDENTIALS, reach=private)
        await call_tool(tool, context, id="1", days=1)
        await call_tool(tool, context, id="2", days=1)
    first, there, _, here = desk.requests
    assert (first.headers["x-key"], first.query) == (API_KEY, "days=1&appid=q%26secret")
    assert (there.path, there.query, there.headers["host"]) == (
        "/there",
        "",
        desk.host_and_port("other.test"),
    )
    assert not {"x-key", "authorization"} & set(there.headers)
    assert (here.path, here.query, here.headers["authorization"]) == (
        "/here",
        "a=1&appid=q%26secret",
        "Bearer t0ken-of-ours",
    )


async def test_what_a_service_repeats_of_its_secrets_is_masked(context):
    async with running_http_service() as desk:
        desk.responses["/ships/1"] = Response(
            f"key {API_KEY}, token t0ken-of-ours, q%26secret, dXNlcjpodW50ZXIyIQ==, hunter2!"
        )
        desk.responses["/ships/2"] = Response(f"no {API_KEY}", 401)
        secrets = Credentials(
            {"X-Key": API_KEY, "X-Auth": "Token t0ken-of-ours"}, {"appid": "q&secret"}, "user:hunter2!"
        )
        tool = ship_tool(desk, credentials=secrets, reach=desk.network_policy("api.test"))
        assert await call_tool(tool, context, id="1", days=1) == "key •••, token •••, •••, •••, •••"
        with pytest.raises(ToolError, match=r"^shipyard answered 401 Unauthorized: no •••$"):
            await call_tool(tool, context, id="2", days=1)
        assert desk.requests[0].headers["authorization"] == "Basic dXNlcjpodW50ZXIyIQ=="
    assert not any(text in repr(tool) + repr(secrets) for text in secrets.secret_texts())


async def test_secrets_are_not_asked_of_the_model(context):
    schema = {
        "type": "object",
        "properties": {"appid": {"type": "string"}, "q": {"type": "string"}},
        "required": ["appid"],
    }
    async with running_http_service() as desk:
        reach = desk.network_policy("api.test")
        service = HttpService(
            "s", frozenset({desk.host_and_port("api.test")}), Credentials({}, {"appid": "secret"}), reach
        )
        tool = make_route_tool(
            build_endpoint_route("find", "Finds.", "GET", desk.url_for("api.test", "/find"), schema), service
        )
        await call_tool(tool, context, q="x")
    assert desk.requests[0].query == "q=x&appid=secret"
    assert tool.told is not None
    assert list(tool.told["properties"]) == ["q"]


@pytest.mark.parametrize(
    ("to", "complaint"),
    [
        ("http://127.0.0.2:{port}/", "127.0.0.2 is not on the public internet"),
        ("http://inside.test/", "inside.test is not on the public internet"),
        ("http://mapped.test/", "mapped.test is not on the public internet"),
        ("http://both.test/", "both.test is not on the public internet"),
        ("http://[::ffff:10.0.0.1]/", "not on the public internet"),
        ("http://home.test:{port}/", "home.test is not on the public internet"),
        ("http://nowhere.test/", "No host is called nowhere.test"),
        ("http://me:pw@api.test/", "name or password"),
        ("ftp://api.test/", "begin with http"),
        ("http://api.test:none/", "no address"),
        ("/ships/1?", "redirects more than 5 times"),
    ],
)
async def test_a_redirect_into_our_own_network_or_nowhere_is_not_followed(context, to, complaint):
    async with running_http_service() as desk:
        desk.responses["/ships/1"] = redirect_response(to.format(port=desk.port))
        inside = {
            "127.0.0.2": ["127.0.0.2"],
            "inside.test": ["169.254.169.254"],
            "mapped.test": ["::ffff:10.0.0.1"],
            "both.test": ["127.0.0.1", "10.0.0.1"],
            "home.test": ["127.0.0.3"],
            "::ffff:10.0.0.1": ["::ffff:10.0.0.1"],
        }
        reach = desk.network_policy("home.test")
        looked_up = reach.resolve

        async def resolve(host: str, port: int) -> list[str]:
            return inside[host] if host in inside else await looked_up(host, port)

        with pytest.raises(ToolError, match=complaint):
            await call_tool(ship_tool(desk, reach=replace(reach, resolve=resolve)), context, id="1", days=1)
        assert {each.headers["host"] for each in desk.requests} == {desk.host_and_port("api.test")}


async def test_a_private_host_is_reached_only_if_it_is_named(context):
    async with running_http_service() as desk:
        address = desk.url_for("127.0.0.1", "/x/{id}")
        for private, complaint in (
            ((), "not on the public internet"),
            (("127.0.0.1:1",), "not on the"),
            (("127.0.0.1",), None),
        ):
            service = HttpService(
                "home",
                frozenset({desk.host_and_port("127.0.0.1")}),
                policy=NetworkPolicy(private=frozenset(private)),
            )
            tool = make_route_tool(
                build_endpoint_route("ship", "Ship.", "GET", address, SHIP_SCHEMA), service
            )
            if complaint:
                with pytest.raises(ToolError, match=complaint):
                    await call_tool(tool, context, id="1", days=1)
            else:
                assert "/x/1" in await call_tool(tool, context, id="1", days=1)


async def test_what_changes_something_is_repeated_by_no_redirect_but_on_the_same_host(context):
    async with running_http_service() as desk:
        desk.responses |= {
            "/ships/1": redirect_response(desk.url_for("other.test", "/take"), 307),
            "/ships/2": redirect_response("/take", 308),
            "/ships/3": redirect_response("/done", 303),
            "/ships/4": redirect_response("/done", 302),
        }
        tool = ship_tool(desk, "POST")
        with pytest.raises(ToolError, match=r"307, a redirect to other\.test"):
            await call_tool(tool, context, id="1", days=1)
        assert json.loads(await call_tool(tool, context, id="2", days=5))["body"] == '{"days":5}'
        assert json.loads(await call_tool(tool, context, id="3", days=1))["method"] == "GET"
        with pytest.raises(ToolError, match=r"302, a redirect to api\.test"):
            await call_tool(tool, context, id="4", days=1)
    assert [each.path for each in desk.requests] == [
        "/ships/1",
        "/ships/2",
        "/take",
        "/ships/3",
        "/done",
        "/ships/4",
    ]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Response('{"a": [1,  2],\n "é": null}', media_type="application/json"), '{"a":[1,2],"é":null}'),
        (Response('{"a": 1', media_type="application/problem+json"), '{"a": 1'),
        (Response("[" * 100_000, media_type="application/json"), "[" * 100_000),
        (Response(b"\xe9", headers={"content-type": "text/plain; charset=latin-1"}), "é"),
        (Response(b"x", headers={"content-type": "text/plain; charset=nonsense"}), "x"),
        (Response(b'{"a": 1}'), '{"a":1}'),
        (Response(b"plain words"), "plain words"),
        (Response(b"\x89PNG\0", media_type="image/png"),
         "Done (200 OK). The answer is a file (image/png, 5 bytes), which cannot be read."),
        (Response(b"\xff\xfe\0"),
         "Done (200 OK). The answer is a file (of an unknown kind, 3 bytes), which cannot be read."),
        (Response(gzip.compress(b"words"), headers={"content-encoding": "gzip"}, media_type="text/plain"), "words"),
        (Response(status_code=202), "Done (202 Accepted). The answer is empty."),
    ],
)  # fmt: skip
async def test_answers_become_text(context, answer, told):
    async with running_http_service() as desk:
        desk.responses["/ships/1"] = answer
        assert await call_tool(ship_tool(desk), context, id="1", days=1) == told


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Response('{"error": "no such ship",  "x": 1}', 404, media_type="application/json"),
         r'^shipyard answered 404 Not Found: {"error":"no such ship","x":1}$'),
        (Response("long " * 500, 500), r"^shipyard answered 500 Internal Server Error: (long ){80}…$"),
        (Response(b"\0", 500, media_type="image/png"), r"^shipyard answered 500 Internal Server Error\.$"),
        (Response(status_code=304), r"^shipyard answered 304 Not Modified\.$"),
        (Response(b"x", headers={"content-encoding": "br"}), "packed in a way that cannot be read"),
        (Response(b"not gzip", headers={"content-encoding": "gzip"}), "packed in a way that cannot be read"),
    ],
)  # fmt: skip
async def test_refusals_are_told_with_status_and_a_short_excerpt(context, answer, complaint):
    async with running_http_service() as desk:
        desk.responses["/ships/1"] = answer
        with pytest.raises(ToolError, match=complaint):
            await call_tool(ship_tool(desk), context, id="1", days=1)


async def test_an_endless_answer_is_left_at_its_bound(context):
    async with running_http_service() as desk:
        desk.responses["/ships/1"] = endless_response()
        text = await call_tool(ship_tool(desk), context, id="1", days=1)
    assert len(text) < services.MAX_RESPONSE_BYTES + 100
    assert text.endswith("[What is beyond 2 MB of the answer is left out]")


async def test_a_silent_service_is_given_up_and_a_change_left_unknown(context, monkeypatch):
    monkeypatch.setattr(services, "TIMEOUT_SECONDS", 0.2)
    async with running_http_service() as desk:
        for method, told in (
            ("GET", r"given up\.$"),
            ("POST", r"given up\. Whether it was done is not known\.$"),
        ):
            with pytest.raises(ToolError, match=rf"^shipyard took longer than 0.2 seconds and was {told}"):
                await call_tool(ship_tool(desk, method, "/hang"), context, id="1", days=1)


async def test_cancelling_ends_a_call(context):
    async with running_http_service() as desk, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(call_tool(ship_tool(desk, path="/hang"), context, days=1))
        while not desk.requests:  # noqa: ASYNC110 - the request is seen in the list
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()


async def test_a_service_that_is_not_there_or_breaks_off_is_said(context):
    async def broken(reader, writer):
        writer.close()

    async with running_http_service() as desk:
        dead = ship_tool(
            desk,
            reach=desk.network_policy(api_test=["127.0.0.9"]),
            hosts=frozenset({desk.host_and_port("api.test")}),
        )
        with pytest.raises(ToolError, match=r"^shipyard could not be asked|not on the public"):
            await call_tool(dead, context, id="1", days=1)
    server = await asyncio.start_server(broken, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        service = HttpService(
            "s", frozenset({f"127.0.0.1:{port}"}), policy=NetworkPolicy(private=frozenset({"127.0.0.1"}))
        )
        url = f"http://127.0.0.1:{port}/"
        with pytest.raises(ToolError, match=r"could not be heard: .*Whether it was done is not known\."):
            await service.send(HttpRequest("POST", url, {}, b"{}"))
    with pytest.raises(ToolError, match=r"^s could not be asked: the site does not answer\.$"):
        await service.send(HttpRequest("POST", url, {}, b"{}"))


async def test_a_redirect_that_gives_up_encryption_is_not_followed():
    service = HttpService("s", frozenset({"api.test"}))
    response = httpx.Response(302, headers={"location": "http://api.test/x"})
    with pytest.raises(ToolError, match="not encrypted"):
        service._follow_redirect(
            HttpRequest("GET", "https://api.test/"), httpx.URL("https://api.test/"), response
        )


def test_a_route_is_kept_as_json():
    route = build_endpoint_route("ship", "Ships.", "post", "https://api.test/v1/ships/{id}", SHIP_SCHEMA)
    assert route_from_json(json.loads(json.dumps(route.as_json()))) == route
    assert (route.host, route.method) == ("api.test", "POST")
    listed = build_endpoint_route("ship", "Ships.", "GET", "https://api.test:444/{id}", SHIP_SCHEMA)
    assert route_from_json(json.loads(json.dumps(listed.as_json()))) == listed
    assert listed.host == "api.test:444"


@pytest.mark.parametrize(
    ("method", "url", "schema", "complaint"),
    [
        ("TRACE", "https://a.test/", SHIP_SCHEMA, "'TRACE' is no method that can be used: take one of GET"),
        ("GET", "ftp://a.test/", SHIP_SCHEMA, "begin with http"),
        ("GET", "file:///etc/passwd", SHIP_SCHEMA, "begin with http"),
        ("GET", "a.test/x", SHIP_SCHEMA, "begin with http"),
        ("GET", "https://me:pw@a.test/", SHIP_SCHEMA, "name or password"),
        ("GET", "https://{id}.test/", SHIP_SCHEMA, "outside of its path"),
        ("GET", "https://a.test/x?id={id}", SHIP_SCHEMA, "must end before its"),
        ("GET", "https://a.test/x?y=1", SHIP_SCHEMA, "must end before its"),
        ("GET", "https://a.test/{nothing}", SHIP_SCHEMA, "asks for 'nothing', which is not described"),
        ("GET", "http://[::1", SHIP_SCHEMA, "no web address"),
        ("GET", "https://a.test/", [], "must be a JSON object"),
        ("GET", "https://a.test/", {"type": "array"}, "describe an object"),
        (
            "GET",
            "https://a.test/",
            {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
            "only references within",
        ),
    ],
)
def test_an_endpoint_that_is_none_is_refused_in_a_sentence(method, url, schema, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        build_endpoint_route("x", "X.", method, url, schema)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=40) | st.text(max_size=20).map(str.encode),
    st.sampled_from(
        ["", "application/json", "text/plain; charset=", "text/x;charset*=x''%ff", "image/png", "a/b;c"]
    )
    | st.text(),
    st.integers(200, 599),
)
def test_any_answer_is_told_or_refused_in_a_sentence(body, kind, status):
    answer = HttpResponse("https://a.test/", status, "Odd", {"content-type": kind}, body, True)
    try:
        text = render_response(answer, "s", "GET")
    except ToolError as error:
        text = str(error)
    assert text


def test_an_ipv6_host_is_named_with_brackets():
    url = httpx.URL("http://[fd00::1]:8080/x")
    for private in ("fd00::1", "[fd00::1]", "[fd00::1]:8080"):
        assert NetworkPolicy(private=frozenset({private})).is_allowed_by_name(url)
    assert not NetworkPolicy(private=frozenset({"[fd00::1]:80", "fd00::2"})).is_allowed_by_name(url)


def test_secrets_are_masked_however_they_are_spelt():
    service = HttpService("s", frozenset(), Credentials({"X": 'a"b/c'}))
    assert service.mask_secrets('{"x":"a\\"b/c"} a"b/c a%22b%2Fc') == '{"x":"•••"} ••• •••'


WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "..", "a\r\nb"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["GET", "POST"]), WILD, WILD)
def test_any_arguments_make_a_request_to_the_same_place_or_are_refused(method, one, other):
    route = build_endpoint_route(
        "x", "X.", method, "https://api.test/a/{id}", {"properties": {"id": {}, "b": {}}}
    )
    try:
        asked = build_request(route, {"id": one, "b": other}, "k")
        url = services.parse_url(asked.url)
    except ToolError as error:
        assert len(str(error)) < 200  # noqa: PT017
        return
    assert (url.host, url.raw_path[:3], url.fragment) == ("api.test", b"/a/", "")
    assert url.raw_path.partition(b"?")[0].count(b"/") == 2


def test_an_address_that_grows_too_long_is_refused():
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/", {"properties": {"q": {}}})
    with pytest.raises(ToolError, match="longer than 8000 characters; send less"):
        services.parse_url(build_request(route, {"q": "x" * 9000}, "k").url)


def test_a_call_without_a_piece_of_its_address_is_refused():
    route = build_endpoint_route("x", "X.", "GET", "https://api.test/{id}", {"properties": {"id": {}}})
    with pytest.raises(ToolError, match="x needs id: it is a part of the address"):
        build_request(route, {}, "k")


def test_a_secret_that_no_header_carries_is_refused_without_showing_it():
    route = build_endpoint_route("x", "X.", "GET", "https://a.test/", {})
    with pytest.raises(ToolDefinitionError, match="enter it again") as refused:
        make_route_tool(route, HttpService("s", frozenset({"a.test"}), Credentials({"k": "päss\nword"})))
    assert "ss" not in str(refused.value).replace("ASCII", "")


def test_a_tool_needs_confirmed_hosts_and_an_encrypted_way_for_secrets():
    route = build_endpoint_route("x", "X.", "GET", "http://a.test/", {})
    with pytest.raises(ToolDefinitionError, match=r"asked of a\.test, which nobody has confirmed"):
        make_route_tool(route, HttpService("s", frozenset({"b.test"})))
    with pytest.raises(ToolDefinitionError, match="secrets unencrypted"):
        make_route_tool(route, HttpService("s", frozenset({"a.test"}), Credentials({"k": "v"})))
    assert make_route_tool(route, HttpService("s", frozenset({"a.test"}))).address == "GET http://a.test/"
