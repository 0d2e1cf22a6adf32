"""Admins add tools from Telegram while the gateway runs: documents, endpoints, MCP servers; secrets are
deleted.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bot.chat.commands.secret_guard import SECRET_NOTICE
from bot.db.engine import open_database
from bot.db.tables import inbox
from bot.db.tools import audit
from bot.db.tools.audit import AuditEntry
from bot.http_server import serve
from bot.tool_registry.secrets import SecretBox
from tests.support.gateway import ADMIN, GatewayHarness, running_gateway
from tests.support.mcp_http_server import FakeMcpHttpServer
from tests.support.openapi_shop import open_shop

BEGUN = "I'm looking at it; the result will appear here."


def open_for_loopback(tmp_path: Path, **more: Any) -> AbstractAsyncContextManager[GatewayHarness]:
    return running_gateway(tmp_path, tools_private_hosts="127.0.0.1", **more)


async def send_and_collect(gateway: GatewayHarness, text: str, count: int = 1) -> list[str]:
    """What the bot says after the admin wrote this: `count` messages."""
    ann = gateway.ann
    before = len(gateway.texts())
    ann.send(text)
    return (await gateway.wait_for_texts(before + count))[before:]


async def try_tool(gateway: GatewayHarness, name: str, arguments: str) -> str:
    """What the bot says of a trial; other messages may come between."""
    begins = f"{name} {{"
    count = sum(text.startswith(begins) for text in gateway.texts())
    gateway.ann.send(f"/tools try {name} {arguments}")

    def list_trials() -> list[str]:
        trials = [text for text in gateway.texts() if text.startswith(begins)]
        return trials[count:]

    return (await gateway.api.wait_until(list_trials))[0]


async def press(gateway: GatewayHarness, label: str, expected_prefix: str) -> str:
    """Tap a button of the bot's newest message, and wait until that message says something that begins so."""
    newest = gateway.api.chat(ADMIN).bot_messages[-1]
    gateway.ann.tap(newest, label)
    await gateway.api.wait_until(lambda: gateway.texts()[-1].startswith(expected_prefix))
    return gateway.texts()[-1]


def button_labels(gateway: GatewayHarness) -> Sequence[str]:
    return [button["text"] for button in gateway.api.chat(ADMIN).bot_messages[-1].buttons]


def has_button(gateway: GatewayHarness, label: str) -> bool:
    return label in button_labels(gateway)


async def load_changes(gateway: GatewayHarness) -> list[AuditEntry]:
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        return (await audit.list_entries(tx))[::-1]


async def test_a_document_is_looked_at_picked_from_tried_and_used(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        texts = await send_and_collect(gateway, f"/tools add {shop.document_url} shop", count=3)
        assert texts[0] == BEGUN
        assert "Some calls go to other hosts than its own: localhost:9." in texts[1]
        lines = texts[2].splitlines()
        assert lines[0].startswith("shop: which of these 4 operations?")
        assert lines[1].startswith("1. list_items · GET /items/{kind} – List what there is")
        for number in ("1", "3"):
            await press(gateway, number, "shop: which")
            await gateway.api.wait_until(partial(has_button, gateway, f"✓ {number}"))
        assert button_labels(gateway) == ["✓ 1", "2", "✓ 3", "4", "Add 2"]
        added = await press(
            gateway, "Add 2", "Added, for admins only until you grant it to others: shop_list_items."
        )
        assert "shop_evil is on hold: please read its description closely" in added
        tried = await try_tool(gateway, "shop_list_items", '{"kind": "hats"}')
        assert tried.splitlines()[1].startswith("ok after ")
        assert "hats one" in tried
        assert "<|turn>" not in tried
        assert shop.calls[0][:2] == ("GET", "/v1/items/hats")
        gateway.ann.send('@@tool:shop_list_items {"kind": "socks"}@@@@say:done@@')
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "done" and gateway.is_finished())
        assert shop.calls[1][:2] == ("GET", "/v1/items/socks")
        log = (await send_and_collect(gateway, "/tools log"))[0]
        assert 'shop_list_items {"kind": "socks"} · Ann (7) in 7, turn 1 · ok · ' in log
        done = [(change.what, change.subject, change.who) for change in await load_changes(gateway)]
        assert done == [
            ("added", "source shop", ADMIN),
            ("picked from", "source shop", ADMIN),
            ("tried", "tool shop_list_items", ADMIN),
        ]


async def test_another_host_is_confirmed_before_anything_is_asked_of_it(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        texts = await send_and_collect(gateway, f"/tools add {shop.document_url} shop elsewhere", count=3)
        assert "· added" not in texts[2]
        question = await press(gateway, "Add 1", "shop is at http://127.0.0.1:")
        assert question.endswith("but these calls would go to localhost:9. Allow that?")
        await press(
            gateway, "Allow that", "Added, for admins only until you grant it to others: shop_elsewhere."
        )
        assert [change.what for change in await load_changes(gateway)] == [
            "added",
            "confirmed hosts",
            "picked from",
        ]


async def test_one_endpoint_is_described_in_the_chat(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        args = f"endpoint hats GET {shop.url}/v1/items/{{kind}}\nWhat hats there are.\nkind: the kind of hat"
        texts = await send_and_collect(gateway, f"/tools add {args}", count=2)
        assert texts[1].startswith("Added, for admins only until you grant it to others: hats.")
        tried = await try_tool(gateway, "hats", '{"kind": "top/hat"}')
        assert "ok after" in tried
        assert shop.calls[0][1] == "/v1/items/top%2Fhat"
        assert (
            "There's already a source hats"
            in (await send_and_collect(gateway, f"/tools add {args}", count=2))[1]
        )


async def test_an_mcp_server_is_added_by_its_url(tmp_path: Path):
    web = FakeMcpHttpServer()
    async with serve(web.app) as url, open_for_loopback(tmp_path) as gateway:
        texts = await send_and_collect(gateway, f"/tools add mcp {url}/mcp odd", count=2)
        assert texts[1].startswith("Added, for admins only until you grant it to others: odd_drop, odd_echo")
        tried = await try_tool(gateway, "odd_echo", '{"text": "hello"}')
        assert "hello" in tried


async def test_what_is_left_out_of_a_server_is_counted_after_ten_lines(tmp_path: Path):
    web = FakeMcpHttpServer()
    web.tools += ["!" * length for length in range(1, 13)]
    async with serve(web.app) as url, open_for_loopback(tmp_path) as gateway:
        lines = (await send_and_collect(gateway, f"/tools add mcp {url}/mcp odd", count=2))[1].splitlines()
        assert [line.partition(" ")[0] for line in lines[1:]] == [
            *("'" + "!" * length + "'" for length in range(1, 11)),
            "…",
        ]
        assert lines[-1] == "… and 2 more: /tools show NAME"


async def test_a_reload_asks_servers_too(tmp_path: Path):
    def says(gateway: GatewayHarness, text: str) -> bool:
        return any(text in sent for sent in gateway.texts())

    web = FakeMcpHttpServer()
    async with open_for_loopback(tmp_path) as gateway:
        async with serve(web.app) as url:
            await send_and_collect(gateway, f"/tools add mcp {url}/mcp odd", count=2)
            for grown in ("grown", "larger"):  # the first is asked of a server nobody has called yet
                web.tools.append(grown)
                gateway.ann.send("/tools reload")
                await gateway.api.wait_until(partial(says, gateway, f"odd_{grown} (new)"))
            await send_and_collect(gateway, f"/tools add mcp {url}/mcp away", count=2)
        gateway.ann.send("/tools reload")
        await gateway.api.wait_until(
            partial(says, gateway, "away is not available: its address does not answer.")
        )


async def test_what_cannot_be_added_is_said_in_a_line(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        for args, reason in (
            ("http://127.0.0.1:9/openapi.json", "could not be"),
            (f"{shop.url}/v1/items/x", "cannot be used"),
            ("http://localhost/openapi.json", "is not on the public internet"),
            (f"mcp {shop.url}/openapi.json", "is not available"),
            (f"{shop.document_url} shop nothing", "doesn't have an operation 'nothing'"),
            (f"{shop.document_url} Shop!", "isn't a valid name for a source"),
            ("what", "an MCP server, or\n/tools add endpoint NAME GET https://"),
            (f"endpoint hats GET {shop.url}/{{kind}}\nHats.", "asks for 'kind', which is not described"),
            (f"endpoint hats BREW {shop.url}/x\nBrew.", "no method"),
        ):
            texts = (await send_and_collect(gateway, f"/tools add {args}", count=2))[1]
            assert reason in texts, texts
        assert await load_changes(gateway) == []


async def test_a_secret_in_a_chat_is_deleted_there_and_kept_nowhere(tmp_path: Path):
    async with open_for_loopback(tmp_path) as gateway:
        texts = await send_and_collect(gateway, "/tools add https://ann:hunter2@api.example/openapi.json")
        assert texts == [SECRET_NOTICE]
        await gateway.api.wait_until(
            lambda: any("hunter2" in message.text for message in gateway.api.chat(ADMIN).deleted_messages)
        )
        async with (
            open_database(gateway.settings.database_url) as database,
            database.read_transaction() as tx,
        ):
            bodies = (await tx.execute(select(inbox.c.body))).scalars().all()
        assert not any("hunter2" in (body or "") for body in bodies)
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"hunter2" not in held


async def test_a_secret_is_named_in_the_chat_and_reaches_the_service(tmp_path: Path):
    key = {"type": "apiKey", "in": "query", "name": "api_key"}
    keys = ("qW0vZ3J0b3V0Zm9yYW4tZXhhbXBsZS1vZi1hLWtleQ4=",)
    async with open_shop() as shop, open_for_loopback(tmp_path, secrets_key=keys) as gateway:
        shop.document["components"] = {"securitySchemes": {"key": key}}
        texts = await send_and_collect(gateway, f"/tools add {shop.document_url} shop", count=3)
        assert "/tools configure shop --query 'api_key={shop}'" in texts[1].splitlines()
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            await SecretBox(keys).store(tx, "shop", "hunter2hunter2")
        texts = await send_and_collect(gateway, "/tools configure shop —query ‘api_key={shop}’", count=3)
        assert texts[1].splitlines() == ["shop has been changed.", "query api_key={shop}"]
        assert texts[2].startswith("shop: which of these 4 operations?")
        await send_and_collect(gateway, "/tools pick shop listItems", count=2)
        tried = await try_tool(gateway, "shop_list_items", '{"kind": "hats"}')
        assert "hats one" in tried
        assert shop.calls[0][1] == "/v1/items/hats?api_key=hunter2hunter2"
        assert not any("hunter2" in text for text in gateway.texts())


async def test_a_fixed_argument_stands_in_the_question_whether_a_call_may_run(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        await send_and_collect(
            gateway, f"/tools add {shop.document_url} shop orderItem --set item=hat", count=2
        )
        gateway.ann.send("@@tool:shop_order_item {}@@@@say:done@@")
        await gateway.api.wait_until(lambda: "May I run shop_order_item?" in gateway.texts()[-1])
        assert "Always set: item hat." in gateway.texts()[-1]
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Allow once")
        await gateway.api.wait_until(lambda: gateway.texts()[-1] == "done" and gateway.is_finished())
        assert shop.calls[0][2] == '{"item":"hat"}'


async def test_operations_are_searched_by_words(tmp_path: Path):
    async with open_shop() as shop, open_for_loopback(tmp_path) as gateway:
        await send_and_collect(gateway, f"/tools add {shop.document_url} shop", count=3)
        found = (await send_and_collect(gateway, "/tools pick shop order an item", count=2))[1]
        assert found.splitlines()[0] == "shop: 1 of 4 operations match 'order an item'. Which ones?"
        assert found.splitlines()[1].startswith("2. order_item · POST /orders")
        assert button_labels(gateway) == ["2", "All"]
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "2")
        await gateway.api.wait_until(partial(has_button, gateway, "✓ 2"))
        await press(gateway, "All", "shop: which of these 4 operations?")
        assert button_labels(gateway) == ["1", "✓ 2", "3", "4", "Add 1"]
        nothing = (await send_and_collect(gateway, "/tools pick shop zebra", count=2))[1]
        assert nothing == "The document doesn't have an operation 'zebra'."
        refused = (await send_and_collect(gateway, "/tools add file:///etc/hosts shop", count=2))[1]
        assert refused.startswith("Use /tools add URL")
