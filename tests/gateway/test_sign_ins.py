"""Signing in at an MCP server from the chat: the link, what is sent back, renewal, and what goes wrong."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from bot.http_server import serve
from tests.support.cache_warmup import wait_until
from tests.support.free_ports import find_free_port
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.oauth_server import OAuthMcpServer, running_oauth_server

BOB = 8
KEY = "qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4="


def run_gateway(tmp_path: Path, **more: Any) -> AbstractAsyncContextManager[GatewayHarness]:
    settings = {"tools_private_hosts": "127.0.0.1", "secrets_key": KEY, "thinking": "off", **more}
    return running_gateway(tmp_path, **settings)


async def say(gateway: GatewayHarness, text: str, expected: str) -> str:
    """Send a message as the admin, and return the new message of the bot with these words."""
    person = gateway.ann
    before = len(gateway.texts())
    person.send(text)
    return await wait_for(gateway, expected, before)


async def wait_for(gateway: GatewayHarness, expected: str, before: int = 0, chat: int = ADMIN) -> str:
    def find() -> Sequence[str]:
        return [text for text in gateway.texts(chat)[before:] if expected in text]

    await gateway.api.wait_until(lambda: bool(find()) and gateway.is_finished(chat))
    return find()[-1]


def count_links(gateway: GatewayHarness, chat: int) -> int:
    entities = [entity for message in gateway.api.chat(chat).bot_messages for entity in message.entities]
    return sum(entity["type"] == "text_link" for entity in entities)


def find_link(gateway: GatewayHarness, chat: int = ADMIN) -> str:
    """The newest link behind words in the chat."""
    messages = gateway.api.chat(chat).bot_messages
    entities = [entity for message in messages for entity in message.entities]
    return str([entity["url"] for entity in entities if entity["type"] == "text_link"][-1])


async def sign_in(gateway: GatewayHarness, servers: OAuthMcpServer) -> str:
    """Open the newest link, agree, and send back the address of the page that does not load."""
    return await say(gateway, await servers.agree(find_link(gateway)), "You're signed in to notes.")


async def use_echo(gateway: GatewayHarness, text: str) -> str:
    """Have the model call a tool of the server, and return what it reads."""
    await say(gateway, f'@@tool:notes_echo {{"text": "{text}"}}@@ @@say:Done: {text}.@@', f"Done: {text}.")
    return gateway.endpoint.requests[-1].prompt


def list_sealed(tmp_path: Path) -> list[str]:
    with sqlite3.connect(tmp_path / "gateway.db") as database:
        rows = database.execute("SELECT name FROM secrets").fetchall()
    database.close()
    return [name for (name,) in rows]


def list_changes(tmp_path: Path) -> list[str]:
    with sqlite3.connect(tmp_path / "gateway.db") as database:
        rows = database.execute("SELECT what FROM audit ORDER BY id").fetchall()
    database.close()
    return [what for (what,) in rows]


@pytest.mark.sqlite
async def test_an_admin_signs_in_by_sending_back_the_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path) as gateway:
        shown = await say(gateway, f"/tools add mcp {servers.url} notes", "wants you to sign in")
        assert "127.0.0.1 within 15 minutes" in shown
        assert "an admin has to sign in: /tools signin notes" in await say(gateway, "/tools", "Sources:")
        address = await servers.agree(find_link(gateway))
        assert "notes_echo" in await say(gateway, address, "You're signed in to notes.")
        chat = gateway.api.chat(ADMIN)
        await gateway.api.wait_until(
            lambda: any(address == message.text for message in chat.deleted_messages)
        )
        assert list_changes(tmp_path) == ["added", "signed in", "added tools of"]
        await say(gateway, "/new", "New conversation.")
        assert "hello" in await use_echo(gateway, "hello")

        servers.authorization.revoke_access()
        assert "again" in await use_echo(gateway, "again")
        assert servers.authorization.renewals == 1
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    code = re.findall("code=([^&]+)", address)[0]
    for secret in (code, *servers.seen_tokens, *servers.authorization.refresh_tokens):
        assert secret.encode() not in stored
        assert secret not in "".join(gateway.texts())
        assert secret not in caplog.text


async def test_a_sign_in_that_is_over_is_reported_and_made_again(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path) as gateway:
        await say(gateway, f"/tools add mcp {servers.url} notes", "wants you to sign in")
        await sign_in(gateway, servers)
        await say(gateway, "/new", "New conversation.")
        assert "hello" in await use_echo(gateway, "hello")
        servers.authorization.revoke_all()
        prompt = await use_echo(gateway, "lost")
        assert "notes is not available: its sign-in is over, and an admin has to sign in again." in prompt
        notice = await wait_for(gateway, "is over, and an admin has to sign in again: /tools signin notes")
        assert notice.startswith("Tools of notes: the sign-in of")
        await say(gateway, "/tools signin notes", "wants you to sign in")
        assert await sign_in(gateway, servers) == "You're signed in to notes."
        assert "back" in await use_echo(gateway, "back")


async def test_a_sign_in_comes_back_to_the_public_address(tmp_path: Path) -> None:
    port = find_free_port()
    public_url = f"http://127.0.0.1:{port}"
    async with (
        running_oauth_server() as servers,
        run_gateway(tmp_path, http_port=port, public_url=public_url) as gateway,
        httpx.AsyncClient(trust_env=False, timeout=60) as browser,
    ):
        shown = await say(gateway, f"/tools add mcp {servers.url} notes", "wants you to sign in")
        assert "send it to me" not in shown
        address = await servers.agree(find_link(gateway))
        for _ in range(2):  # opening it only asks
            question = (await browser.get(address)).text
            assert "your account at notes (127.0.0.1) to this bot, for everyone" in question
            assert "“Ann” (number 7 in Telegram) asked for it." in question
        page = await browser.post(address)
        assert page.text.startswith("Thank you")
        await wait_for(gateway, "You're signed in to notes.")
        again = await browser.get(f"{public_url}/canvasgram/signin?state=made-up&code=made-up")
        assert (again.status_code, again.text.startswith("This sign-in is not open")) == (400, True)


async def test_a_page_names_who_gets_an_account_and_ends_with_their_access(
    tmp_path: Path,
) -> None:
    port = find_free_port()
    public_url = f"http://127.0.0.1:{port}"
    async with (
        running_oauth_server() as servers,
        run_gateway(tmp_path, http_port=port, public_url=public_url, access="open") as gateway,
        httpx.AsyncClient(trust_env=False, timeout=60) as browser,
    ):
        bob = gateway.api.person(BOB, "Bob")
        bob.send("/id")
        await say(gateway, f"/tools add mcp {servers.url} notes --personal", "wants you to sign in")
        await browser.post(await servers.agree(find_link(gateway)))
        await wait_for(gateway, "You're signed in to notes.")
        await say(gateway, "/grant notes_echo everyone", "notes_echo may be used by: everyone.")
        bob.send('@@tool:notes_echo {"text": "first"}@@ @@say:Sign in, Bob.@@')
        await wait_for(gateway, "notes works with your own account.", chat=BOB)
        [offer] = [message for message in gateway.api.chat(BOB).bot_messages if message.buttons]
        addresses: list[str] = []
        for _ in range(2):
            bob.tap(offer, "Sign in to notes")
            await gateway.api.wait_until(lambda: count_links(gateway, BOB) > len(addresses))
            addresses.append(await servers.agree(find_link(gateway, BOB)))
        page = await browser.get(addresses[1])
        assert f"to “Bob” (number {BOB} in Telegram)?" in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert (await browser.post(addresses[0])).status_code == 400  # another one was begun
        await say(gateway, f"/people block {BOB}", "is blocked.")
        before = gateway.texts(BOB)
        for answer in (await browser.get(addresses[1]), await browser.post(addresses[1])):
            assert (answer.status_code, answer.text.startswith("This sign-in is not open")) == (400, True)
        await say(gateway, "@@say:and now@@", "and now")
        assert gateway.texts(BOB) == before


async def test_what_is_sent_back_wrongly_signs_nobody_in(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path, access="open") as gateway:
        await say(gateway, f"/tools add mcp {servers.url} notes", "wants you to sign in")
        address = await servers.agree(find_link(gateway))
        gateway.api.person(BOB, "Bob").send(address)
        await wait_for(gateway, "no longer open", chat=BOB)
        await say(gateway, re.sub("state=[^&]+", "state=made-up", address), "no longer open")
        await say(gateway, address.replace("code=", "code=x"), "Its sign-in refused the code")
        await say(gateway, "/tools signin notes", "wants you to sign in")
        assert "notes_echo" in await sign_in(gateway, servers)
        await say(gateway, address, "no longer open")


async def test_a_server_that_leads_to_a_private_host_is_not_signed_in_to(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path) as gateway:
        servers.server_metadata = {"authorization_endpoint": "https://192.168.1.1/reboot"}
        await say(gateway, f"/tools add mcp {servers.url} notes", "192.168.1.1 is not on the public internet")
        assert "Sources:" not in await say(gateway, "/tools", "Tools:")


async def test_a_server_that_wants_a_key_and_offers_no_sign_in_is_named_as_such(tmp_path: Path) -> None:
    async with serve(Response(status_code=401)) as url, run_gateway(tmp_path) as gateway:
        answer = await say(gateway, f"/tools add mcp {url} notes", "no usable sign-in")
        assert answer.endswith(
            "`canvasgram tools secret set token`, then add it with --header 'Authorization: Bearer {token}'"
        )


async def test_without_a_key_nobody_is_asked_to_sign_in(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path, secrets_key="") as gateway:
        await say(gateway, f"/tools add mcp {servers.url} notes", "SECRETS_KEY is missing")


@pytest.mark.sqlite
async def test_removing_a_source_forgets_its_sign_in(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path) as gateway:
        await say(gateway, f"/tools add mcp {servers.url} notes", "wants you to sign in")
        await sign_in(gateway, servers)
        assert list_sealed(tmp_path) == ["sign-in:notes"]
        await say(gateway, "/tools remove notes", "Remove the source notes")
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Remove")
        await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith("Tools:"))
        assert list_sealed(tmp_path) == []


@pytest.mark.sqlite
async def test_each_person_of_a_personal_server_uses_an_account_of_their_own(tmp_path: Path) -> None:
    async with (
        running_oauth_server() as servers,
        run_gateway(tmp_path, access="open") as gateway,
    ):
        bob = gateway.api.person(BOB, "Bob")
        bob.send("/id")
        await say(gateway, f"/tools add MCP {servers.url} notes --personal", "wants you to sign in")
        await sign_in(gateway, servers)
        granted = await say(gateway, "/grant notes_echo everyone", "notes_echo may be used by: everyone.")
        assert "share" not in granted
        await say(gateway, "/new", "New conversation.")
        await use_echo(gateway, "mine")
        [anns_token] = set(servers.seen_tokens)

        bob.send('@@tool:notes_echo {"text": "first"}@@ @@say:Sign in, Bob.@@')
        await wait_for(gateway, "Sign in, Bob.", chat=BOB)
        assert "Bob has to sign in to notes first" in gateway.endpoint.requests[-1].prompt
        await wait_for(gateway, "notes works with your own account.", chat=BOB)
        [offer] = [message for message in gateway.api.chat(BOB).bot_messages if message.buttons]
        bob.tap(offer, "Sign in to notes")
        await wait_for(gateway, "notes wants you to sign in", chat=BOB)
        bob.send(await servers.agree(find_link(gateway, BOB)))
        await wait_for(gateway, "You're signed in to notes.", chat=BOB)
        bob.send('@@tool:notes_echo {"text": "second"}@@ @@say:There it is.@@')
        await wait_for(gateway, "There it is.", chat=BOB)
        assert "second" in gateway.endpoint.requests[-1].prompt
        assert anns_token != servers.seen_tokens[-1]
        await use_echo(gateway, "mine again")
        assert anns_token == servers.seen_tokens[-1]
        assert list_sealed(tmp_path) == ["sign-in:notes", f"sign-in:notes:{BOB}"]

        await say(gateway, "/revoke notes_echo everyone", "may be used by: admins.")
        bob.tap(offer, "Sign in to notes")
        await wait_for(gateway, "You can't sign in to notes yet: an admin has to give you access", chat=BOB)
        gateway.ann.send(f"/people remove {BOB}")
        await wait_until(lambda: list_sealed(tmp_path) == ["sign-in:notes"])


@pytest.mark.sqlite
async def test_another_admin_takes_the_place_of_one_who_is_removed(tmp_path: Path) -> None:
    async with running_oauth_server() as servers, run_gateway(tmp_path) as gateway:
        bob = gateway.api.person(BOB, "Bob")
        link = await say(gateway, "/invite admin", "makes one person an admin")
        bob.send(f"/start {link.partition('start=')[2]}")
        await wait_for(gateway, "", chat=BOB)
        bob.send(f"/tools add mcp {servers.url} notes --personal")
        await wait_for(gateway, "wants you to sign in", chat=BOB)
        bob.send(await servers.agree(find_link(gateway, BOB)))
        await wait_for(gateway, "You're signed in to notes.", chat=BOB)
        [bobs_token] = servers.authorization.tokens
        assert list_sealed(tmp_path) == ["sign-in:notes"]

        await say(gateway, f"/people remove {BOB}", "Bob has been removed.")
        assert list_sealed(tmp_path) == []
        await say(gateway, "/tools signin notes", "wants you to sign in")
        await sign_in(gateway, servers)
        assert list_sealed(tmp_path) == ["sign-in:notes"]
        await say(gateway, "/new", "New conversation.")
        assert "hello" in await use_echo(gateway, "hello")
        assert servers.seen_tokens[-1] != bobs_token
