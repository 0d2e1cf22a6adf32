"""Signing in at an MCP server over loopback, with an authorization server of the SDK, misled and not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.mcp_session import call_tool, running_server
from tests.support.oauth_server import OAuthMcpServer, running_oauth_server
from tools.base import ToolError
from tools.mcp.location import ServerUrl
from tools.mcp.oauth import RegisteredClient, sign_in
from tools.mcp.sign_in import SignIn, SignInAnswer, parse_answer, parse_sign_in

REDIRECT_URL = "http://127.0.0.1:8739/canvasgram/signin"
LOOPBACK = frozenset({"127.0.0.1"})


class MemorySignIns:
    """Keeps a sign-in, and how often it was saved."""

    def __init__(self, kept: SignIn | None = None) -> None:
        self.kept = kept
        self.saves = 0
        self.secret_texts: frozenset[str] = frozenset()

    async def load(self) -> SignIn | None:
        return self.kept

    async def save(self, sign_in: SignIn) -> None:
        self.kept = sign_in
        self.saves += 1


class AgreeableDialog:
    """Agrees on the page of the link; `change_address` changes where that page leads."""

    def __init__(self, servers: OAuthMcpServer, change_address: Callable[[str], str]) -> None:
        self._servers = servers
        self._change_address = change_address
        self._link = ""

    async def show_link(self, link: str) -> None:
        self._link = link

    async def wait_for_answer(self) -> SignInAnswer:
        answer = parse_answer(self._change_address(await self._servers.agree(self._link)))
        assert answer is not None
        return answer


async def do_sign_in(
    servers: OAuthMcpServer,
    private: frozenset[str] = LOOPBACK,
    change_address: Callable[[str], str] = str,
    client: RegisteredClient | None = None,
) -> SignIn:
    """Sign in as somebody who agrees at once."""
    server = ServerUrl(servers.url, private=private)
    return await sign_in(server, REDIRECT_URL, AgreeableDialog(servers, change_address), client)


async def call_echo(servers: OAuthMcpServer, store: MemorySignIns | None) -> str:
    server = ServerUrl(servers.url, private=LOOPBACK, sign_in_store=store)
    if store is not None and store.kept is not None:
        server = replace(server, signed_in_at=store.kept.signed_in_at)
    async with running_server(server) as (client, _):
        try:
            return (await call_tool(client, "echo", {"text": "hello"})).text
        except ToolError as error:
            return str(error)


async def test_a_sign_in_is_kept_as_text_and_used() -> None:
    async with running_oauth_server() as servers:
        store = MemorySignIns(parse_sign_in((await do_sign_in(servers)).as_text()))
        assert await call_echo(servers, store) == "hello"
        assert servers.authorization.resources == [servers.url]
        assert store.saves == 0


async def test_a_server_that_nobody_has_signed_in_to_says_so_at_once() -> None:
    async with running_oauth_server() as servers:
        assert await call_echo(servers, None) == "odd is not available: an admin has to sign in to it first."


async def test_a_token_is_renewed_before_it_ends_and_once_when_it_is_refused() -> None:
    async with running_oauth_server() as servers:
        servers.authorization.expires_in = 1
        store = MemorySignIns(await do_sign_in(servers))
        assert store.kept is not None
        first = store.kept.tokens
        store.kept = replace(store.kept, renew_at=0.0)
        servers.authorization.expires_in = None
        assert await call_echo(servers, store) == "hello"
        assert (store.saves, servers.authorization.renewals) == (1, 1)
        assert first["access_token"] not in servers.seen_tokens

        servers.authorization.revoke_access()
        assert await call_echo(servers, store) == "hello"
        assert (store.saves, servers.authorization.renewals) == (2, 2)


async def test_a_token_that_cannot_be_renewed_needs_a_person() -> None:
    async with running_oauth_server() as servers:
        store = MemorySignIns(await do_sign_in(servers))
        servers.authorization.revoke_all()
        answer = await call_echo(servers, store)
        assert answer == "odd is not available: its sign-in is over, and an admin has to sign in again."
        assert store.saves == 0


@pytest.mark.parametrize(
    ("token_endpoint", "reason"),
    [
        ("http://127.0.0.1:9/token", "its address does not answer"),
        ("https://10.0.0.1/token", "10.0.0.1 is not on the public internet, so it is not opened"),
        ("http://10.0.0.1/token", "10.0.0.1 would get codes and tokens unencrypted"),
    ],
    ids=["away", "private", "unencrypted"],
)
async def test_a_renewal_that_cannot_be_asked_for_loses_nothing(token_endpoint: str, reason: str) -> None:
    async with running_oauth_server() as servers:
        made = await do_sign_in(servers)
        assert made.authorization_server is not None
        elsewhere = {**made.authorization_server, "token_endpoint": token_endpoint}
        store = MemorySignIns(replace(made, renew_at=0.0, authorization_server=elsewhere))
        assert await call_echo(servers, store) == "hello"  # with the token that still holds
        servers.authorization.revoke_access()
        assert reason in await call_echo(servers, store)
        assert store.saves == 0
        store.kept = replace(made, renew_at=0.0)
        assert await call_echo(servers, store) == "hello"


async def test_a_renewal_that_fails_ends_no_call_under_way() -> None:
    async with running_oauth_server() as servers:
        servers.authorization.expires_in = 0  # each request renews it
        store = MemorySignIns(await do_sign_in(servers))
        server = ServerUrl(servers.url, private=LOOPBACK, sign_in_store=store)
        async with running_server(server) as (client, _), asyncio.TaskGroup() as tasks:
            call = tasks.create_task(call_tool(client, "wait", {"text": "waited"}))
            await servers.mcp.is_waiting.wait()
            servers.is_overloaded = True
            assert (await call_tool(client, "echo", {"text": "hello"})).text == "hello"
            servers.mcp.release.set()
            assert (await call).text == "waited"


async def test_a_client_that_was_registered_beforehand_is_used() -> None:
    async with running_oauth_server() as servers:
        await do_sign_in(servers)
        [registered] = servers.authorization.clients.values()
    async with running_oauth_server(can_register=False) as servers:
        with pytest.raises(ToolError, match="does not register new clients"):
            await do_sign_in(servers)
        kept = registered.model_copy(
            update={"client_secret": "shh-secret", "token_endpoint_auth_method": "client_secret_post"}
        )
        servers.authorization.clients[kept.client_id] = kept
        servers.server_metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        client = RegisteredClient(kept.client_id, "shh-secret")
        store = MemorySignIns(await do_sign_in(servers, client=client))
        assert await call_echo(servers, store) == "hello"


async def test_an_answer_that_is_not_right_signs_nobody_in() -> None:
    wrong_answers: list[tuple[Callable[[str], str], str]] = [
        (lambda address: f"{address}x", "does not belong to this sign-in"),
        (lambda address: f"{address}&iss=https://evil.example", "does not belong to this sign-in"),
        (lambda address: address.replace("code=code", "code=gone"), "refused the code"),
        (lambda address: address.replace("code=", "error="), "declined"),
    ]
    async with running_oauth_server() as servers:
        for wrong, reason in wrong_answers:
            with pytest.raises(ToolError, match=reason):
                await do_sign_in(servers, change_address=wrong)
        assert servers.authorization.tokens == {}


async def test_a_code_that_is_too_old_is_refused() -> None:
    async with running_oauth_server() as servers:
        servers.authorization.code_seconds = -1.0
        with pytest.raises(ToolError, match="may be too old"):
            await do_sign_in(servers)


async def test_a_server_that_sends_us_elsewhere_is_refused() -> None:
    misleading: list[tuple[dict[str, object], str]] = [
        ({"authorization_servers": ["https://10.0.0.1"]}, "10.0.0.1 is not on the public internet"),
        ({"authorization_servers": ["http://10.0.0.1"]}, "10.0.0.1 would get codes and tokens unencrypted"),
        ({"resource": "https://other.example/mcp"}, "does not fit together"),
        ({"authorization_servers": "what?"}, "does not fit together|offers no usable sign-in"),
    ]
    async with running_oauth_server() as servers:
        for metadata, reason in misleading:
            servers.resource_metadata = metadata
            with pytest.raises(ToolError, match=reason):
                await do_sign_in(servers)


async def test_an_authorization_server_that_leads_elsewhere_is_refused() -> None:
    misleading: list[tuple[dict[str, object], str]] = [
        ({"issuer": "https://evil.example"}, "does not fit together"),
        ({"registration_endpoint": "https://10.0.0.1/register"}, "10.0.0.1 is not on the public"),
        ({"token_endpoint": "https://10.0.0.1/token"}, "10.0.0.1 is not on the public"),
        ({"token_endpoint": "http://public.example/token"}, "public.example would get codes and tokens"),
        ({"authorization_endpoint": "https://10.0.0.1/authorize"}, "10.0.0.1 is not on the public"),
        ({"authorization_endpoint": "http://10.0.0.1/authorize"}, "10.0.0.1 would get codes"),
    ]
    async with running_oauth_server() as servers:
        for metadata, reason in misleading:
            servers.server_metadata = metadata
            with pytest.raises(ToolError, match=reason):
                await do_sign_in(servers)
        assert servers.authorization.tokens == {}


def test_what_holds_tokens_does_not_show_them() -> None:
    sign_in = SignIn("https://mcp.example", 0.0, {"access_token": "shh"}, None, {"client_secret": "psst"})
    assert "shh" not in repr(sign_in)
    assert sign_in.list_secrets() == ["shh", "psst"]
    assert "shh" not in repr(SignInAnswer("state", "shh"))


def test_only_an_address_with_a_state_is_an_answer() -> None:
    assert parse_answer("http://127.0.0.1:8739/canvasgram/signin?state=a&code=b") == SignInAnswer("a", "b")
    for address in ("", "http://[", "http://a.example/?code=b", "http://a.example/?state=b"):
        assert parse_answer(address) is None
