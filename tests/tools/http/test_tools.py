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

from tests.support.http_service import Desk, endless, open_desk, redirect
from tools.arguments import ArgumentsRefused, check
from tools.base import Rule, Tool, ToolContext, ToolError
from tools.http import service as services
from tools.http.requests import asked_of
from tools.http.responses import told
from tools.http.routes import route_from, route_to
from tools.http.service import Answer, Asked, Secrets, Service
from tools.http.tools import tool_of
from tools.net.policy import Reach
from tools.registry import definitions
from tools.schemas.signature import ToolDefinitionError

KEY = "k-1234567890"
SHIP = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Which."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "deep": {"type": "object"},
        "days": {"type": "integer", "minimum": 1, "default": 3},
    },
    "required": ["days"],
}


def ship(
    desk: Desk, method: str = "GET", path: str = "/ships/{id}", secrets: Secrets | None = None, **more: Any
) -> Tool:
    service = Service("shipyard", frozenset({desk.host("api.test")}), secrets or Secrets(), desk.reach())
    service = replace(service, **more)
    return tool_of(route_to("ship", "About a ship.", method, desk.at("api.test", path), SHIP), service)


async def called(tool: Tool, context: ToolContext, **arguments: object) -> Any:
    return await tool.function(check(tool, arguments), context)


async def test_an_argument_that_is_an_address_is_judged_as_one():
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "url": {"type": "string"}}}
    async with open_desk() as desk:
        service = Service("short", frozenset({desk.host("api.test")}), Secrets(), desk.reach())
        route = route_to("shorten", "Make it short.", "GET", desk.at("api.test", "/short"), schema)
    assert tool_of(route, service).opens == "url"


async def test_a_question_carries_its_arguments_encoded_and_nothing_else(context):
    async with open_desk() as desk:
        tool = ship(desk)
        told = json.loads(
            await called(tool, context, id="a/b ?#&é", tags=["x&y", "z"], deep={"k": 1}, days="2")
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
    assert desk.heard[0].headers["host"] == desk.host("api.test")
    assert not {"cookie", "authorization", "idempotency-key", "content-type"} & set(desk.heard[0].headers)


async def test_what_the_model_is_told_and_what_is_checked_differ():
    async with open_desk() as desk:
        tool = ship(desk)
    assert definitions([tool])[0]["function"]["parameters"]["properties"]["days"] == {
        "description": "at least 1; default 3",
        "type": "integer",
    }
    assert tool.told is not None
    assert tool.told["required"] == ["days", "id"]
    with pytest.raises(ArgumentsRefused, match="days of ship does not fit"):
        check(tool, {"id": "a", "days": 0})
    with pytest.raises(ArgumentsRefused, match="ship needs id"):
        check(tool, {"days": 1})


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_what_changes_something_asks_first_and_carries_a_key(context, method):
    async with open_desk() as desk:
        tool = ship(desk, method)
        told = json.loads(await called(tool, context, id="7", days=1, deep={"a": [1, None]}))
    assert (tool.repeatable, tool.changes, tool.rule) == (False, True, Rule("always"))
    assert json.loads(told["body"]) == {"days": 1, "deep": {"a": [1, None]}}
    assert desk.heard[0].headers["content-type"] == "application/json"
    assert desk.heard[0].headers["idempotency-key"] == context.key


async def test_deleting_and_looking_need_no_body(context):
    async with open_desk() as desk:
        desk.answers["/ships/7"] = Response(status_code=204)
        assert (
            await called(ship(desk, "DELETE"), context, id="7", days=1)
            == "Done (204 No Content). The answer is empty."
        )
        desk.answers["/ships/8"] = Response("x", media_type="text/plain", headers={"etag": "v1"})
        told = await called(ship(desk, "HEAD"), context, id="8", days=1)
    assert told == "200 OK\ncontent-type: text/plain; charset=utf-8\ncontent-length: 1\netag: v1"
    assert desk.heard[0].query == "days=1"
    assert desk.heard[0].headers["idempotency-key"]
    assert [each.body for each in desk.heard] == ["", ""]


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "..\\x", "%2e%2e/" + "..", "/..", ""])
async def test_a_value_never_leads_to_another_path(context, value):
    async with open_desk() as desk:
        with pytest.raises(ToolError, match=r"not sent|must not be empty"):
            await called(ship(desk), context, id=value, days=1)
    assert desk.heard == []


async def test_a_value_that_is_encoded_twice_stays_a_value(context):
    async with open_desk() as desk:
        await called(ship(desk), context, id="%2e%2e", days=1)
    assert desk.heard[0].path == "/ships/%252e%252e"


SECRETS = Secrets({"X-Key": KEY, "Authorization": "Bearer t0ken-of-ours"}, {"appid": "q&secret"})


async def test_secrets_go_to_the_services_own_hosts_only(context):
    async with open_desk() as desk:
        private = desk.reach(desk.host("api.test"))
        desk.answers["/ships/1"] = redirect(desk.at("other.test", "/there"))
        desk.answers["/ships/2"] = redirect("/here?a=1")
        tool = ship(desk, secrets=SECRETS, reach=private)
        await called(tool, context, id="1", days=1)
        await called(tool, context, id="2", days=1)
    first, there, _, here = desk.heard
    assert (first.headers["x-key"], first.query) == (KEY, "days=1&appid=q%26secret")
    assert (there.path, there.query, there.headers["host"]) == ("/there", "", desk.host("other.test"))
    assert not {"x-key", "authorization"} & set(there.headers)
    assert (here.path, here.query, here.headers["authorization"]) == (
        "/here",
        "a=1&appid=q%26secret",
        "Bearer t0ken-of-ours",
    )


async def test_what_a_service_repeats_of_its_secrets_is_masked(context):
    async with open_desk() as desk:
        desk.answers["/ships/1"] = Response(
            f"key {KEY}, token t0ken-of-ours, q%26secret, dXNlcjpodW50ZXIyIQ==, hunter2!"
        )
        desk.answers["/ships/2"] = Response(f"no {KEY}", 401)
        secrets = Secrets(
            {"X-Key": KEY, "X-Auth": "Token t0ken-of-ours"}, {"appid": "q&secret"}, "user:hunter2!"
        )
        tool = ship(desk, secrets=secrets, reach=desk.reach("api.test"))
        assert await called(tool, context, id="1", days=1) == "key •••, token •••, •••, •••, •••"
        with pytest.raises(ToolError, match=r"^shipyard answered 401 Unauthorized: no •••$"):
            await called(tool, context, id="2", days=1)
        assert desk.heard[0].headers["authorization"] == "Basic dXNlcjpodW50ZXIyIQ=="
    assert not any(text in repr(tool) + repr(secrets) for text in secrets.texts())


async def test_secrets_are_not_asked_of_the_model(context):
    schema = {
        "type": "object",
        "properties": {"appid": {"type": "string"}, "q": {"type": "string"}},
        "required": ["appid"],
    }
    async with open_desk() as desk:
        reach = desk.reach("api.test")
        service = Service("s", frozenset({desk.host("api.test")}), Secrets({}, {"appid": "secret"}), reach)
        tool = tool_of(route_to("find", "Finds.", "GET", desk.at("api.test", "/find"), schema), service)
        await called(tool, context, q="x")
    assert desk.heard[0].query == "q=x&appid=secret"
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
    async with open_desk() as desk:
        desk.answers["/ships/1"] = redirect(to.format(port=desk.port))
        inside = {
            "127.0.0.2": ["127.0.0.2"],
            "inside.test": ["169.254.169.254"],
            "mapped.test": ["::ffff:10.0.0.1"],
            "both.test": ["127.0.0.1", "10.0.0.1"],
            "home.test": ["127.0.0.3"],
            "::ffff:10.0.0.1": ["::ffff:10.0.0.1"],
        }
        reach = desk.reach("home.test")
        looked_up = reach.resolve

        async def resolve(host: str, port: int) -> list[str]:
            return inside[host] if host in inside else await looked_up(host, port)

        with pytest.raises(ToolError, match=complaint):
            await called(ship(desk, reach=replace(reach, resolve=resolve)), context, id="1", days=1)
        assert {each.headers["host"] for each in desk.heard} == {desk.host("api.test")}


async def test_a_private_host_is_reached_only_if_it_is_named(context):
    async with open_desk() as desk:
        address = desk.at("127.0.0.1", "/x/{id}")
        for private, complaint in (
            ((), "not on the public internet"),
            (("127.0.0.1:1",), "not on the"),
            (("127.0.0.1",), None),
        ):
            service = Service(
                "home", frozenset({desk.host("127.0.0.1")}), reach=Reach(private=frozenset(private))
            )
            tool = tool_of(route_to("ship", "Ship.", "GET", address, SHIP), service)
            if complaint:
                with pytest.raises(ToolError, match=complaint):
                    await called(tool, context, id="1", days=1)
            else:
                assert "/x/1" in await called(tool, context, id="1", days=1)


async def test_what_changes_something_is_repeated_by_no_redirect_but_on_the_same_host(context):
    async with open_desk() as desk:
        desk.answers |= {
            "/ships/1": redirect(desk.at("other.test", "/take"), 307),
            "/ships/2": redirect("/take", 308),
            "/ships/3": redirect("/done", 303),
            "/ships/4": redirect("/done", 302),
        }
        tool = ship(desk, "POST")
        with pytest.raises(ToolError, match=r"307, a redirect to other\.test"):
            await called(tool, context, id="1", days=1)
        assert json.loads(await called(tool, context, id="2", days=5))["body"] == '{"days":5}'
        assert json.loads(await called(tool, context, id="3", days=1))["method"] == "GET"
        with pytest.raises(ToolError, match=r"302, a redirect to api\.test"):
            await called(tool, context, id="4", days=1)
    assert [each.path for each in desk.heard] == [
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
    async with open_desk() as desk:
        desk.answers["/ships/1"] = answer
        assert await called(ship(desk), context, id="1", days=1) == told


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
    async with open_desk() as desk:
        desk.answers["/ships/1"] = answer
        with pytest.raises(ToolError, match=complaint):
            await called(ship(desk), context, id="1", days=1)


async def test_an_endless_answer_is_left_at_its_bound(context):
    async with open_desk() as desk:
        desk.answers["/ships/1"] = endless()
        text = await called(ship(desk), context, id="1", days=1)
    assert len(text) < services.BYTES + 100
    assert text.endswith("[What is beyond 2 MB of the answer is left out]")


async def test_a_silent_service_is_given_up_and_a_change_left_unknown(context, monkeypatch):
    monkeypatch.setattr(services, "SECONDS", 0.2)
    async with open_desk() as desk:
        for method, told in (
            ("GET", r"given up\.$"),
            ("POST", r"given up\. Whether it was done is not known\.$"),
        ):
            with pytest.raises(ToolError, match=rf"^shipyard took longer than 0.2 seconds and was {told}"):
                await called(ship(desk, method, "/hang"), context, id="1", days=1)


async def test_cancelling_ends_a_call(context):
    async with open_desk() as desk, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(called(ship(desk, path="/hang"), context, days=1))
        while not desk.heard:  # noqa: ASYNC110 - the request is seen in the list
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()


async def test_a_service_that_is_not_there_or_breaks_off_is_said(context):
    async def broken(reader, writer):
        writer.close()

    async with open_desk() as desk:
        dead = ship(desk, reach=desk.reach(api_test=["127.0.0.9"]), hosts=frozenset({desk.host("api.test")}))
        with pytest.raises(ToolError, match=r"^shipyard could not be asked|not on the public"):
            await called(dead, context, id="1", days=1)
    server = await asyncio.start_server(broken, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        service = Service(
            "s", frozenset({f"127.0.0.1:{port}"}), reach=Reach(private=frozenset({"127.0.0.1"}))
        )
        url = f"http://127.0.0.1:{port}/"
        with pytest.raises(ToolError, match=r"could not be heard: .*Whether it was done is not known\."):
            await service.send(Asked("POST", url, {}, b"{}"))
    with pytest.raises(ToolError, match=r"^s could not be asked: the site does not answer\.$"):
        await service.send(Asked("POST", url, {}, b"{}"))


async def test_a_redirect_that_gives_up_encryption_is_not_followed():
    service = Service("s", frozenset({"api.test"}))
    response = httpx.Response(302, headers={"location": "http://api.test/x"})
    with pytest.raises(ToolError, match="not encrypted"):
        service._onward(Asked("GET", "https://api.test/"), httpx.URL("https://api.test/"), response)


def test_a_route_is_kept_as_json():
    route = route_to("ship", "Ships.", "post", "https://api.test/v1/ships/{id}", SHIP)
    assert route_from(json.loads(json.dumps(route.as_json()))) == route
    assert (route.host, route.method) == ("api.test", "POST")
    listed = route_to("ship", "Ships.", "GET", "https://api.test:444/{id}", SHIP)
    assert route_from(json.loads(json.dumps(listed.as_json()))) == listed
    assert listed.host == "api.test:444"


@pytest.mark.parametrize(
    ("method", "url", "schema", "complaint"),
    [
        ("TRACE", "https://a.test/", SHIP, "'TRACE' is no method that can be used: take one of GET"),
        ("GET", "ftp://a.test/", SHIP, "begin with http"),
        ("GET", "file:///etc/passwd", SHIP, "begin with http"),
        ("GET", "a.test/x", SHIP, "begin with http"),
        ("GET", "https://me:pw@a.test/", SHIP, "name or password"),
        ("GET", "https://{id}.test/", SHIP, "outside of its path"),
        ("GET", "https://a.test/x?id={id}", SHIP, "must end before its"),
        ("GET", "https://a.test/x?y=1", SHIP, "must end before its"),
        ("GET", "https://a.test/{nothing}", SHIP, "asks for 'nothing', which is not described"),
        ("GET", "http://[::1", SHIP, "no web address"),
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
        route_to("x", "X.", method, url, schema)


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
    answer = Answer("https://a.test/", status, "Odd", {"content-type": kind}, body, True)
    try:
        text = told(answer, "s", "GET")
    except ToolError as error:
        text = str(error)
    assert text


def test_an_ipv6_host_is_named_with_brackets():
    url = httpx.URL("http://[fd00::1]:8080/x")
    for private in ("fd00::1", "[fd00::1]", "[fd00::1]:8080"):
        assert Reach(private=frozenset({private})).names(url)
    assert not Reach(private=frozenset({"[fd00::1]:80", "fd00::2"})).names(url)


def test_secrets_are_masked_however_they_are_spelt():
    service = Service("s", frozenset(), Secrets({"X": 'a"b/c'}))
    assert service.masked('{"x":"a\\"b/c"} a"b/c a%22b%2Fc') == '{"x":"•••"} ••• •••'


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
    route = route_to("x", "X.", method, "https://api.test/a/{id}", {"properties": {"id": {}, "b": {}}})
    try:
        asked = asked_of(route, {"id": one, "b": other}, "k")
        url = services.checked(asked.url)
    except ToolError as error:
        assert len(str(error)) < 200  # noqa: PT017
        return
    assert (url.host, url.raw_path[:3], url.fragment) == ("api.test", b"/a/", "")
    assert url.raw_path.partition(b"?")[0].count(b"/") == 2


def test_an_address_that_grows_too_long_is_refused():
    route = route_to("x", "X.", "GET", "https://api.test/", {"properties": {"q": {}}})
    with pytest.raises(ToolError, match="longer than 8000 characters; send less"):
        services.checked(asked_of(route, {"q": "x" * 9000}, "k").url)


def test_a_call_without_a_piece_of_its_address_is_refused():
    route = route_to("x", "X.", "GET", "https://api.test/{id}", {"properties": {"id": {}}})
    with pytest.raises(ToolError, match="x needs id: it is a part of the address"):
        asked_of(route, {}, "k")


def test_a_secret_that_no_header_carries_is_refused_without_showing_it():
    route = route_to("x", "X.", "GET", "https://a.test/", {})
    with pytest.raises(ToolDefinitionError, match="enter it again") as refused:
        tool_of(route, Service("s", frozenset({"a.test"}), Secrets({"k": "päss\nword"})))
    assert "ss" not in str(refused.value).replace("ASCII", "")


def test_a_tool_needs_confirmed_hosts_and_an_encrypted_way_for_secrets():
    route = route_to("x", "X.", "GET", "http://a.test/", {})
    with pytest.raises(ToolDefinitionError, match=r"asked of a\.test, which nobody has confirmed"):
        tool_of(route, Service("s", frozenset({"b.test"})))
    with pytest.raises(ToolDefinitionError, match="secrets unencrypted"):
        tool_of(route, Service("s", frozenset({"a.test"}), Secrets({"k": "v"})))
    assert tool_of(route, Service("s", frozenset({"a.test"}))).address == "GET http://a.test/"
