"""A service over HTTP: where secrets go, which redirects are followed, and how failures are reported."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from starlette.responses import Response

from tests.support.http_service import (
    API_KEY,
    SHIP_SCHEMA,
    call_tool,
    redirect_response,
    running_http_service,
    ship_tool,
)
from tools.base import ToolError
from tools.http.routes import build_endpoint_route
from tools.http.service import (
    Credentials,
    HttpRequest,
    HttpService,
)
from tools.http.tools import make_route_tool
from tools.net.policy import NetworkPolicy

CREDENTIALS = Credentials({"X-Key": API_KEY, "Authorization": "Bearer t0ken-of-ours"}, {"appid": "q&secret"})


async def test_secrets_go_to_the_services_own_hosts_only(context):
    async with running_http_service() as harness:
        private = harness.network_policy(harness.host_and_port("api.test"))
        harness.responses["/ships/1"] = redirect_response(harness.url_for("other.test", "/there"))
        harness.responses["/ships/2"] = redirect_response("/here?a=1")
        tool = ship_tool(harness, credentials=CREDENTIALS, policy=private)
        await call_tool(tool, context, id="1", days=1)
        await call_tool(tool, context, id="2", days=1)
    first, foreign, _, redirected = harness.requests
    assert (first.headers["x-key"], first.query) == (API_KEY, "days=1&appid=q%26secret")
    assert (foreign.path, foreign.query, foreign.headers["host"]) == (
        "/there",
        "",
        harness.host_and_port("other.test"),
    )
    assert not {"x-key", "authorization"} & set(foreign.headers)
    assert (redirected.path, redirected.query, redirected.headers["authorization"]) == (
        "/here",
        "a=1&appid=q%26secret",
        "Bearer t0ken-of-ours",
    )


async def test_what_a_service_repeats_of_its_secrets_is_masked(context):
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = Response(
            f"key {API_KEY}, token t0ken-of-ours, q%26secret, dXNlcjpodW50ZXIyIQ==, hunter2!"
        )
        harness.responses["/ships/2"] = Response(f"no {API_KEY}", 401)
        secrets = Credentials(
            {"X-Key": API_KEY, "X-Auth": "Token t0ken-of-ours"}, {"appid": "q&secret"}, "user:hunter2!"
        )
        tool = ship_tool(harness, credentials=secrets, policy=harness.network_policy("api.test"))
        assert await call_tool(tool, context, id="1", days=1) == "key •••, token •••, •••, •••, •••"
        with pytest.raises(ToolError, match=r"^shipyard answered 401 Unauthorized: no •••$"):
            await call_tool(tool, context, id="2", days=1)
        assert harness.requests[0].headers["authorization"] == "Basic dXNlcjpodW50ZXIyIQ=="
    assert not any(text in repr(tool) + repr(secrets) for text in secrets.secret_texts())


def test_secrets_are_masked_however_they_are_spelled():
    service = HttpService("s", frozenset(), Credentials({"X": 'a"b/c'}))
    assert service.mask_secrets('{"x":"a\\"b/c"} a"b/c a%22b%2Fc') == '{"x":"•••"} ••• •••'


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
    async with running_http_service() as harness:
        harness.responses["/ships/1"] = redirect_response(to.format(port=harness.port))
        inside = {
            "127.0.0.2": ["127.0.0.2"],
            "inside.test": ["169.254.169.254"],
            "mapped.test": ["::ffff:10.0.0.1"],
            "both.test": ["127.0.0.1", "10.0.0.1"],
            "home.test": ["127.0.0.3"],
            "::ffff:10.0.0.1": ["::ffff:10.0.0.1"],
        }
        policy = harness.network_policy("home.test")
        resolve_other = policy.resolve

        async def resolve(host: str, port: int) -> list[str]:
            if host in inside:
                return inside[host]
            return await resolve_other(host, port)

        with pytest.raises(ToolError, match=complaint):
            await call_tool(
                ship_tool(harness, policy=replace(policy, resolve=resolve)), context, id="1", days=1
            )
        assert {request.headers["host"] for request in harness.requests} == {
            harness.host_and_port("api.test")
        }


async def test_a_redirect_to_an_unencrypted_address_is_not_followed():
    service = HttpService("s", frozenset({"api.test"}))
    response = httpx.Response(302, headers={"location": "http://api.test/x"})
    with pytest.raises(ToolError, match="not encrypted"):
        service._follow_redirect(
            HttpRequest("GET", "https://api.test/"), httpx.URL("https://api.test/"), response
        )


async def test_an_unsafe_request_is_repeated_only_by_redirects_on_the_same_host(context):
    async with running_http_service() as harness:
        harness.responses |= {
            "/ships/1": redirect_response(harness.url_for("other.test", "/take"), 307),
            "/ships/2": redirect_response("/take", 308),
            "/ships/3": redirect_response("/done", 303),
            "/ships/4": redirect_response("/done", 302),
        }
        tool = ship_tool(harness, "POST")
        with pytest.raises(ToolError, match=r"307, a redirect to other\.test"):
            await call_tool(tool, context, id="1", days=1)
        assert json.loads(await call_tool(tool, context, id="2", days=5))["body"] == '{"days":5}'
        assert json.loads(await call_tool(tool, context, id="3", days=1))["method"] == "GET"
        with pytest.raises(ToolError, match=r"302, a redirect to api\.test"):
            await call_tool(tool, context, id="4", days=1)
    assert [request.path for request in harness.requests] == [
        "/ships/1",
        "/ships/2",
        "/take",
        "/ships/3",
        "/done",
        "/ships/4",
    ]


async def test_a_private_host_is_called_only_if_it_is_named(context):
    async with running_http_service() as harness:
        address = harness.url_for("127.0.0.1", "/x/{id}")
        for private, complaint in (
            ((), "not on the public internet"),
            (("127.0.0.1:1",), "not on the"),
            (("127.0.0.1",), None),
        ):
            service = HttpService(
                "home",
                frozenset({harness.host_and_port("127.0.0.1")}),
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


async def test_a_silent_service_is_given_up_and_a_change_left_unknown(context):
    async with running_http_service() as harness:
        for method, ending in (
            ("GET", r"given up\.$"),
            ("POST", r"given up\. Whether it was done is not known\.$"),
        ):
            tool = ship_tool(harness, method, "/hang", timeout_seconds=0.2)
            with pytest.raises(ToolError, match=rf"^shipyard took longer than 0.2 seconds and was {ending}"):
                await call_tool(tool, context, id="1", days=1)


async def test_cancelling_ends_a_call(context):
    async with running_http_service() as harness, asyncio.TaskGroup() as tasks:
        task = tasks.create_task(call_tool(ship_tool(harness, path="/hang"), context, days=1))
        while not harness.requests:  # noqa: ASYNC110 - the request is seen in the list
            await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()


async def test_a_service_that_is_not_there_or_breaks_off_is_reported(context):
    async def broken(reader, writer):
        writer.close()

    async with running_http_service() as harness:
        dead = ship_tool(
            harness,
            policy=harness.network_policy(api_test=["127.0.0.9"]),
            hosts=frozenset({harness.host_and_port("api.test")}),
        )
        with pytest.raises(ToolError, match=r"^shipyard could not be asked|not on the public"):
            await call_tool(dead, context, id="1", days=1)
    server = await asyncio.start_server(broken, "127.0.0.1", 0)
    policy = NetworkPolicy(private=frozenset({"127.0.0.1"}))
    async with server:
        port = server.sockets[0].getsockname()[1]
        service = HttpService("s", frozenset({f"127.0.0.1:{port}"}), policy=policy)
        with pytest.raises(ToolError, match=r"could not be heard: .*Whether it was done is not known\."):
            await service.send(HttpRequest("POST", f"http://127.0.0.1:{port}/", {}, b"{}"))
    service = HttpService("s", frozenset({"127.0.0.1:9"}), policy=policy)
    with pytest.raises(ToolError, match=r"^s could not be asked: the site does not answer\.$"):
        await service.send(HttpRequest("POST", "http://127.0.0.1:9/", {}, b"{}"))
