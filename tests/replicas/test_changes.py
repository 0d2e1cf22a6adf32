"""What one of two gateways changes holds on the other one; both run in this process, on one server."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from bot.db.engine import open_database
from bot.db.people import page_sessions
from bot.domain import SHARE_COUNT, compute_share
from bot.sim.telegram.chats import ChatMessage
from tests.gateway.test_approval_waits import ring_prompt, wait_for_question
from tests.support.admin_page import find_csrf_token
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.free_ports import find_free_port
from tests.support.gateway import ADMIN, GatewayHarness, open_harness
from tests.support.group_chat import open_group
from tests.support.postgresql import PostgresServer
from tests.support.telegram.server import ScriptedPerson

HOLDERS = "SELECT share, life FROM share_holds WHERE ended_at IS NULL"


@pytest.fixture
def url(postgresql_server: PostgresServer) -> Iterator[str]:
    with postgresql_server.open_database() as url:
        yield url


def select(url: str, query: str) -> list[Any]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


async def wait_for_rows(url: str, query: str, rows: list[Any]) -> None:
    async with asyncio.timeout(60):
        while select(url, query) != rows:  # noqa: ASYNC110  # rows say nothing when they change
            await asyncio.sleep(0.02)


class TwoGateways:
    """Two gateways that share the chats; `ann` is an admin, `ports` are those of their pages."""

    def __init__(self, harness: GatewayHarness, url: str, ports: tuple[int, int]) -> None:
        self.harness = harness
        self.api = harness.api
        self.ann = harness.ann
        self.url = url
        self.ports = ports

    def has_holder_of_ann(self, chat: int) -> bool:
        holders = dict(select(self.url, HOLDERS))
        return bool(holders[compute_share(chat)] == holders[compute_share(ADMIN)])

    def find_chat(self, numbers: Iterator[int]) -> int:
        """The first of these chats that the other gateway has than Ann's."""
        return next(number for number in numbers if not self.has_holder_of_ann(number))

    async def ask_ann(self, text: str, answer: str) -> None:
        """Have Ann write, and wait until she reads this in something new."""
        before = len(self.harness.texts())
        self.ann.send(text)
        await self.api.wait_until(lambda: any(answer in seen for seen in self.harness.texts()[before:]))

    def find_message(self, chat: int, text: str) -> ChatMessage | None:
        """The bot's first message in a chat with these words."""
        messages = self.api.chat(chat).bot_messages
        return next((message for message in messages if text in message.text), None)

    async def wait_for_message(self, chat: int, text: str) -> ChatMessage:
        message = await self.api.wait_until(lambda: self.find_message(chat, text))
        assert message is not None
        return message

    def has_eyes(self, chat: int, message_id: int) -> bool:
        """Whether the bot has reacted to a message."""
        messages = self.api.chat(chat).messages
        return any(message.message_id == message_id and message.reactions for message in messages)

    async def wait_until_done(self, update_id: int) -> None:
        """Wait until nothing more will be done about an update."""
        await wait_for_rows(self.url, f"SELECT state FROM inbox WHERE update_id = {update_id}", [("done",)])


@asynccontextmanager
async def run_two(tmp_path: Path, url: str, **settings: Any) -> AsyncIterator[TwoGateways]:
    settings |= {"database_url": url, "admin_page": "on"}
    ports = find_free_port(), find_free_port()
    async with open_harness(tmp_path, http_port=ports[0], **settings) as harness:
        other = replace(harness, settings=harness.settings.model_copy(update={"http_port": ports[1]}))
        async with harness.run(), other.run():
            counts = "SELECT count(*) FROM share_holds WHERE ended_at IS NULL GROUP BY life"
            await wait_for_rows(url, counts, [(SHARE_COUNT // 2,)] * 2)
            yield TwoGateways(harness, url, ports)


@asynccontextmanager
async def open_pages(gateways: TwoGateways) -> AsyncIterator[list[httpx.AsyncClient]]:
    """The pages of both, with one session: first that of the gateway that has Ann's chat."""
    async with open_database(gateways.url) as database, database.transaction() as tx:
        token = await page_sessions.insert_link(tx, ADMIN, now=time.time())
    session = ""
    async with AsyncExitStack() as stack:
        pages: list[httpx.AsyncClient] = []
        for port in gateways.ports:
            url = f"http://127.0.0.1:{port}"
            http = await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=60)
            )
            cookie = f"canvasgram-session-{port}"
            if not session:
                answer = await http.post(page_sessions.build_login_url(url, token))
                session = answer.cookies[cookie]
            http.cookies.set(cookie, session)
            shares = (await http.get("/healthz")).json()["replica"]["shares"]
            pages.insert(0 if compute_share(ADMIN) in shares else len(pages), http)
        yield pages


async def check_that_all_is_cut(
    gateways: TwoGateways, person: ScriptedPerson, block: Callable[[], Awaitable[None]]
) -> None:
    """What runs for somebody ends once they are blocked, and their next message is not answered."""
    endpoint = gateways.harness.endpoint
    endpoint.hold()
    person.send("@@say:cut@@")
    await endpoint.wait_until(lambda: endpoint.running == 1)
    await block()
    await endpoint.wait_until(lambda: endpoint.running == 0)
    endpoint.release()
    sent = person.send("@@say:unheard@@")
    await gateways.wait_until_done(sent.update_id)
    assert not gateways.find_message(person.id, "unheard")


async def check_pages(gateways: TwoGateways) -> None:
    """Either gateway's page shows both, and what is done on one holds for a chat that the other one has."""
    cleo = gateways.api.person(gateways.find_chat(iter(range(200, 300))), "Cleo")
    async with open_pages(gateways) as pages:
        now = [(await page.get("/admin/now")).text for page in pages]
        assert [text.count("shows this page") for text in now] == [1, 1]
        own_rows = [re.findall(r"<tr><td[^>]*>(\d+)</td><td[^>]*>([^<]*)", text) for text in now]
        assert [number for number, _ in own_rows[0]] == [number for number, _ in own_rows[1]]
        assert own_rows[0] != own_rows[1]  # each is marked on its own page
        first, token = pages[0], find_csrf_token(now[0])

        async def act(name: str) -> None:
            answer = await first.post(f"/admin/people/{cleo.id}/{name}", data={"csrf": token})
            assert answer.status_code == 303, answer.text

        cleo.send("Hello")
        await gateways.wait_for_message(ADMIN, "Cleo")
        await act("let-in")
        cleo.send("@@say:Hello Cleo@@")
        await gateways.wait_for_message(cleo.id, "Hello Cleo")
        await check_that_all_is_cut(gateways, cleo, partial(act, "block"))
        assert "blocked" in (await pages[1].get("/admin/people")).text


async def test_what_an_admin_decides_holds_on_the_other_replica(tmp_path: Path, url: str):
    tools = install_bells(tmp_path)
    async with run_two(tmp_path, url, tools_dir=tools) as gateways:
        bob = gateways.api.person(gateways.find_chat(iter(range(100, 200))), "Bob")
        harness = gateways.harness
        await gateways.ask_ann("@@say:Hello Ann@@", "Hello Ann")
        bob.send("Hello")
        card = await gateways.wait_for_message(ADMIN, "Bob")
        gateways.ann.tap(card, "Give access")
        await gateways.wait_for_message(bob.id, "Hello Bob")
        await gateways.ask_ann(f"/grant toll {bob.id}", "toll may be used")
        bob.send(ring_prompt("one", "toll"))
        await gateways.wait_for_message(bob.id, "asked the admins")
        question = await wait_for_question(harness, "one")
        gateways.ann.tap(question, "Allow once")
        await gateways.wait_for_message(bob.id, "rang one")
        assert load_rung_bells(tmp_path) == ["one"]

        await gateways.ask_ann("/limits Bob 0", "0 canvases")
        bob.send("@@say:beyond the limit@@")
        await gateways.wait_for_message(bob.id, "used up")
        await gateways.ask_ann("/limits Bob none", "no limit")

        async def block_bob() -> None:
            await gateways.ask_ann(f"/people block {bob.id}", "blocked")

        await check_that_all_is_cut(gateways, bob, block_bob)

        await check_pages(gateways)


async def test_questions_expire_messages_wait_and_a_group_moves_where_another_replica_leads(
    tmp_path: Path, url: str
):
    tools = install_bells(tmp_path)
    async with run_two(tmp_path, url, tools_dir=tools, approval_seconds=1) as gateways:
        harness = gateways.harness
        await gateways.ask_ann("@@say:Hello Ann@@", "Hello Ann")
        # One of the two chats is not the leader's.
        bob = gateways.api.person(gateways.find_chat(iter(range(100, 200))), "Bob")
        await gateways.ask_ann(f"/people add {bob.id}", "now has access")
        await gateways.ask_ann(f"/grant ring {bob.id}", "ring may be used")
        people = (gateways.ann, bob)
        for person in people:
            person.send(ring_prompt("one"))
        for person in people:
            await gateways.wait_for_message(person.id, "Nobody answered in time")
            await gateways.wait_for_message(person.id, "rang one")
        assert load_rung_bells(tmp_path) == []

        harness.endpoint.hold()
        for person in people:
            person.send("@@say:first@@")
        await harness.endpoint.wait_until(lambda: harness.endpoint.running == 2)
        waiting = [person.send("@@say:second@@").message_id for person in people]
        await gateways.api.wait_until(
            lambda: all(
                gateways.has_eyes(person.id, message) for person, message in zip(people, waiting, strict=True)
            )
        )
        harness.endpoint.release()
        for person in people:
            await gateways.wait_for_message(person.id, "second")
        await gateways.api.wait_until(
            lambda: (
                not any(
                    gateways.has_eyes(person.id, message)
                    for person, message in zip(people, waiting, strict=True)
                )
            )
        )

        # A group that Ann's gateway has becomes a supergroup of the other one, in the middle of an answer.
        group = next(chat for chat in range(-501, -600, -1) if gateways.has_holder_of_ann(chat))
        supergroup = gateways.find_chat(iter(range(-1001000000777, -1001000000900, -1)))
        team = open_group(gateways.api, gateways.ann, is_basic=True, chat=group)
        await team.wait_for_texts(1)
        await harness.endpoint.wait_until(lambda: harness.endpoint.running == 0)
        harness.endpoint.hold()
        team.ann.send("/ask@canvasgram_sim_bot @@say:cut@@", thread=team.group)
        await harness.endpoint.wait_until(lambda: harness.endpoint.running == 1)
        moved = team.group.migrate(supergroup)
        await wait_for_rows(url, f"SELECT count(*) FROM groups WHERE other_chat = {supergroup}", [(1,)])
        team.ann.send("/stop@canvasgram_sim_bot", thread=moved)
        await harness.endpoint.wait_until(lambda: harness.endpoint.running == 0)
        harness.endpoint.release()
        team.ann.send("/ask@canvasgram_sim_bot @@say:at home again@@", thread=moved)
        await gateways.wait_for_message(supergroup, "at home again")
