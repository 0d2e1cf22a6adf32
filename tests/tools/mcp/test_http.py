"""Servers over HTTP, the SDK's own and a misbehaving one: which addresses are opened, who gets headers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx2
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bot.http_server import serve
from tests.support.mcp_http_server import FakeMcpHttpServer
from tests.support.mcp_session import QUICK_LIMITS, call_tool, running_server
from tools.base import ToolError
from tools.mcp.definitions import McpToolListing
from tools.mcp.errors import AddressNotAllowed
from tools.mcp.http import PolicyTransport
from tools.mcp.location import ServerUrl
from tools.net.policy import NetworkPolicy

LOOPBACK = frozenset({"127.0.0.1"})


def has_listed(name: str) -> Callable[[list[McpToolListing]], bool]:
    """Whether the last listing has a tool of this name."""

    def predicate(listings: list[McpToolListing]) -> bool:
        return name in [definition.name for definition in listings[-1].definitions]

    return predicate


def open_client(policy: NetworkPolicy) -> httpx2.AsyncClient:
    transport = PolicyTransport(policy, httpx2.create_ssl_context(trust_env=False), read_seconds=20.0)
    return httpx2.AsyncClient(transport=transport, trust_env=False)


@contextlib.asynccontextmanager
async def running_mcp_server(*, modern: bool = False) -> AsyncIterator[tuple[FakeMcpHttpServer, str]]:
    site = FakeMcpHttpServer(modern=modern)
    async with serve(site.app) as url:
        yield site, url


@pytest.mark.parametrize("json_response", [True, False])
async def test_a_server_of_the_sdk_is_listed_called_and_followed(json_response: bool):
    sdk_server = MCPServer("weather")

    @sdk_server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def forecast(city: str, days: int = 1) -> str:
        """The weather of the next days."""
        return f"{city}: sun for {days}"

    @sdk_server.tool()
    async def more(context: Context) -> str:
        """Offer another tool."""
        sdk_server.add_tool(forecast, name="again", description="The same.")
        await context.notify_tools_changed()
        return "done"

    app = sdk_server.streamable_http_app(json_response=json_response)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        url = await stack.enter_async_context(serve(app))
        server, changes = await stack.enter_async_context(
            running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK), name="weather")
        )
        listing = await server.list_tools()
        assert [definition.name for definition in listing.definitions] == ["weather_forecast", "weather_more"]
        assert listing.definitions[0].input_schema["properties"]["city"]["type"] == "string"
        assert (await call_tool(server, "forecast", {"city": "Oslo", "days": 2})).text == "Oslo: sun for 2"
        with pytest.raises(ToolError, match="valid"):
            await call_tool(server, "forecast", {"days": "many"})
        await call_tool(server, "more", {})
        await changes.wait_until(has_listed("weather_again"))


async def test_headers_go_to_the_server_and_to_no_other_host():
    async with running_mcp_server() as (site, url), running_mcp_server() as (other_site, other_url):
        location = ServerUrl(f"{url}/mcp", {"Authorization": "Bearer secret"}, LOOPBACK)
        assert "secret" not in repr(location)
        async with running_server(location) as (server, _):
            headers = json.loads((await call_tool(server, "headers", {})).text)
            assert headers["authorization"] == "Bearer secret"
            assert headers["host"] == url.removeprefix("http://")
        assert site.ended_sessions == ["session-1"]
        site.redirect_url = f"{other_url}/mcp"
        redirecting = ServerUrl(f"{url}/away", {"Authorization": "Bearer secret"}, LOOPBACK)
        async with running_server(redirecting) as (server, _):
            with pytest.raises(ToolError, match="odd is not available: it refuses: Redirect to"):
                await server.list_tools()
        assert other_site.methods == []


async def test_a_redirect_on_the_same_host_is_followed():
    async with (
        running_mcp_server() as (_, url),
        running_server(ServerUrl(f"{url}/moved", private=LOOPBACK)) as (server, _),
    ):
        assert (await call_tool(server, "echo", {"text": "moved"})).text == "moved"


async def test_responses_that_are_too_large_packed_or_invalid_are_errors_of_their_call():
    async with (
        running_mcp_server() as (_, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, changes),
    ):
        for name, complaint in {
            "huge": "larger than 4 MiB",
            "packed": r"^The answer of odd is larger .* is packed, and was not read\. Ask for less of it\.$",
            "many": "larger than 4 MiB",
            "many_event": "is not available",
            "huge_event": "is not available",
            "page": "odd refused: Unexpected content type",
            "garbage": r"^odd could not be heard: it does not speak the protocol\.$",
            "drop": "is not available",
        }.items():
            with pytest.raises(ToolError, match=complaint):
                await call_tool(server, name, {})
        assert (await call_tool(server, "echo", {"text": "alive"})).text == "alive"
        assert len(changes.listings) == 1


async def test_a_restarted_server_is_called_again_by_the_same_call():
    async with (
        running_mcp_server() as (site, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, _),
    ):
        await call_tool(server, "forget", {})
        assert (await call_tool(server, "echo", {"text": "found again"})).text == "found again"
        assert site.methods.count("initialize") == 2


async def test_an_answer_may_be_silent_as_long_as_a_call_with_all_its_questions(
    monkeypatch: pytest.MonkeyPatch,
):
    read_seconds: list[float | None] = []

    class RecordingTransport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            read_seconds.append(request.extensions["timeout"]["read"])
            return await super().handle_async_request(request)

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", RecordingTransport)
    async with (
        running_mcp_server() as (_, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, _),
    ):
        await call_tool(server, "echo", {"text": "hello"})
        assert QUICK_LIMITS.tool_seconds in read_seconds


async def test_a_cancelled_call_is_reported_over_http():
    async with (
        running_mcp_server() as (site, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, _),
    ):
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(call_tool(server, "wait", {}))
            await site.is_waiting.wait()
            call.cancel()
        await site.cancelled.wait()
        assert (await call_tool(server, "echo", {"text": "others go on"})).text == "others go on"
        site.release.set()


async def test_changes_are_received_on_the_stream_of_an_older_server():
    async with (
        running_mcp_server() as (_, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, changes),
    ):
        await call_tool(server, "grow", {})
        await changes.wait_until(has_listed("odd_grown"))


async def test_tools_are_listed_now_and_then_in_case_a_notification_was_lost():
    limits = replace(QUICK_LIMITS, relist_seconds=0.01)
    async with (
        running_mcp_server() as (site, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK), limits) as (server, changes),
    ):
        assert (await call_tool(server, "echo", {"text": "meanwhile"})).text == "meanwhile"
        site.tools.append("grown")
        await changes.wait_until(has_listed("odd_grown"))


async def test_a_server_of_the_newest_protocol_cannot_ask_back_and_is_listened_to_again():
    async with (
        running_mcp_server(modern=True) as (site, url),
        running_server(ServerUrl(f"{url}/mcp", private=LOOPBACK)) as (server, changes),
    ):
        with pytest.raises(ToolError, match="odd wants to ask what is not possible here"):
            await call_tool(server, "ask", {})
        listed = site.methods.count("tools/list")
        with pytest.raises(ToolError, match="odd refused: other headers"):
            await call_tool(server, "mismatch", {})
        assert (await call_tool(server, "echo", {"text": "on"})).text == "on"
        site.tools.append("grown")
        await changes.wait_until(has_listed("odd_grown"))
        assert site.methods.count("tools/list") > listed
        while site.methods.count("subscriptions/listen") < 2:  # noqa: ASYNC110  # each is seen in the list
            await asyncio.sleep(0.01)


async def test_a_server_of_the_old_transport_is_named_as_such():
    async def stream_events(request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            yield "event: endpoint\r\ndata: /messages?session_id=1\r\n\r\n"
            await asyncio.Event().wait()

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/sse", stream_events, methods=["GET"])])
    async with serve(app) as url, running_server(ServerUrl(f"{url}/sse", private=LOOPBACK)) as (server, _):
        with pytest.raises(
            ToolError, match=r"odd is not available: it offers the old transport alone .*…/sse\.$"
        ):
            await server.list_tools()


async def test_no_server_and_nonsense_are_different_errors():
    async with (
        running_mcp_server() as (_, url),
        running_server(ServerUrl(f"{url}/broken", private=LOOPBACK)) as (server, _),
    ):
        with pytest.raises(ToolError, match="odd is not available: it does not speak the protocol"):
            await server.list_tools()
    async with running_server(ServerUrl("http://127.0.0.1:9/mcp", private=LOOPBACK)) as (server, _):
        with pytest.raises(ToolError, match="odd is not available: its address does not answer"):
            await server.list_tools()


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("http://127.0.0.1:9/mcp", ["127.0.0.1"]),
        ("http://[::1]:9/mcp", ["::1"]),
        ("http://internal.example/mcp", ["10.0.0.7"]),
        ("http://both.example/mcp", ["1.1.1.1", "192.168.0.1"]),
        ("http://mapped.example/mcp", ["::ffff:127.0.0.1"]),
        ("https://metadata.example/mcp", ["169.254.169.254"]),
        ("http://nothing.example/mcp", []),
    ],
)
async def test_only_public_addresses_are_opened(url: str, addresses: list[str]):
    async def resolve(host: str, port: int) -> list[str]:
        if not addresses:
            raise OSError("unknown")
        return addresses

    async with open_client(NetworkPolicy(resolve=resolve, private=frozenset({"other.example"}))) as client:
        with pytest.raises(AddressNotAllowed, match=r"is not on the public internet|No host is called"):
            await client.post(url)


async def test_the_address_that_was_checked_is_the_one_that_is_opened():
    looked_up: list[str] = []
    async with running_mcp_server() as (_, url):
        port = int(url.rsplit(":", 1)[1])

        async def resolve(host: str, port: int) -> list[str]:
            looked_up.append(host)
            return ["127.0.0.2", "127.0.0.1"]  # nobody listens at the first

        server_url = f"http://server.example:{port}/mcp"
        policy = NetworkPolicy(resolve=resolve, private=frozenset({f"server.example:{port}"}))
        async with open_client(policy) as client:
            response = await client.post(server_url, json={"method": "server/discover"})
            assert response.status_code == 400
            assert looked_up == ["server.example"]
            with pytest.raises(httpx2.ConnectError):
                await client.post(server_url.replace(str(port), "9"))


async def test_a_server_on_a_private_host_is_not_available_unless_it_is_allowed():
    async with (
        running_mcp_server() as (site, url),
        running_server(ServerUrl(f"{url}/mcp"), QUICK_LIMITS) as (server, _),
    ):
        with pytest.raises(
            ToolError, match=r"odd is not available: 127.0.0.1 is not on the public internet, so"
        ):
            await call_tool(server, "echo", {})
        assert site.methods == []
