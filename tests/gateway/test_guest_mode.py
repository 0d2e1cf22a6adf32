"""Guest mode in the whole gateway over loopback: one message in a chat of others, for people who are in."""

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from bot.agent.prompt import GATEWAY_INSTRUCTION, GUEST_LINE
from bot.app import turn_factory
from bot.chat.commands.forget import GUEST_NOTICE
from bot.db.engine import Database, open_database
from bot.db.maintenance import retention
from bot.db.queues import guest_queries
from bot.db.tables import inbox
from bot.domain import Lane
from bot.maintenance.retention import FORGOTTEN_TEXT
from bot.sim.vllm.server import format_tool_call
from bot.turns.failure_texts import GUEST_ANSWER_LOST
from tests.support.gateway import ADMIN, GatewayHarness, long_story, running_gateway
from tests.support.telegram.faults import BotApiFault
from tests.support.telegram.server import ScriptedGroup
from tests.support.telegram.world import GuestQuery

ELSEWHERE = -1002000000001
STRANGER = 31
BOT = "@canvasgram_sim_bot"
REST_NOTICE = "(The rest is in our private chat.)"


def open_elsewhere(gateway: GatewayHarness) -> ScriptedGroup:
    """A group of Ann's and a stranger's that the bot is no member of."""
    gateway.api.change_bot(supports_guest_queries=True)
    stranger = gateway.api.person(STRANGER, "Sam")
    return gateway.api.add_foreign_group(ELSEWHERE, "Elsewhere", owner=gateway.ann, members=(stranger,))


async def wait_for_answer(gateway: GatewayHarness, query: GuestQuery, text: str) -> None:
    await gateway.api.wait_until(lambda: query.answer is not None and text in query.answer.text)


def read_contents(gateway: GatewayHarness) -> list[str]:
    """The messages of the last request, without the moment at which the first one was sent."""
    contents = [message["content"] for message in gateway.endpoint.requests[-1].body["messages"]]
    return [content.partition(" UTC] ")[2] or content for content in contents]


async def test_a_guest_answers_in_one_message_with_a_prompt_of_its_own(tmp_path: Path):
    async with running_gateway(
        tmp_path, guest_mode="on", thinking="off", system_prompt="Be kind."
    ) as gateway:
        elsewhere = open_elsewhere(gateway)
        gateway.ann.send('@@tool:remember {"note": "a secret"}@@@@say:kept@@')
        await gateway.wait_for_texts(1)
        gateway.ann.send("/instructions Call me Queen Ann.")
        await gateway.wait_for_texts(2)
        quoted = gateway.api.person(STRANGER, "Sam").send("the sky is green", thread=elsewhere)
        gateway.endpoint.hold()
        query = gateway.ann.summon(f"{BOT} why? @@say:Because.@@", thread=elsewhere, reply_to=quoted)
        await wait_for_answer(gateway, query, "…")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        second = gateway.ann.summon(f"{BOT} and when? @@say:At nine.@@", thread=elsewhere)
        await wait_for_answer(gateway, second, "…")
        gateway.endpoint.release()
        await wait_for_answer(gateway, query, "Because.")
        await wait_for_answer(gateway, second, "At nine.")
        unrelated = read_contents(gateway)
        answer = second.answer
        assert answer is not None
        third = gateway.ann.summon("really?", thread=elsewhere, reply_to=answer)
        await wait_for_answer(gateway, third, "really?")
        follow_up = read_contents(gateway)
        first_request = gateway.endpoint.requests[-3].body
        tools = {tool["function"]["name"] for tool in first_request["tools"]}
    system = f"Be kind.\n{GUEST_LINE}\n{GATEWAY_INSTRUCTION}"
    assert unrelated == [system, "and when? @@say:At nine.@@"]
    assert follow_up[:3] == [*unrelated, "At nine."]
    assert follow_up[3].endswith("written by you]\nAt nine.\n[end of data]\nreally?")
    quote = first_request["messages"][1]["content"]
    assert "written by Sam]\nthe sky is green\n[end of data]\nwhy?" in quote
    assert "calculate" in tools
    assert not tools & {"ask", "remember", "recall", "look_back", "schedule"}
    assert len(elsewhere.chat.bot_messages) == 3
    assert len(gateway.texts()) == 2
    assert not any(message.buttons for message in elsewhere.chat.bot_messages)


async def test_a_long_answer_goes_on_in_private_and_a_stranger_hears_nothing(tmp_path: Path):
    async with running_gateway(tmp_path, guest_mode="on", access="pairing", thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        stranger = gateway.api.person(STRANGER, "Sam")
        ignored = stranger.summon(f"{BOT} and me?", thread=elsewhere)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(1)
        query = gateway.ann.summon(f"{BOT} {long_story()}", thread=elsewhere)
        await wait_for_answer(gateway, query, REST_NOTICE)
        texts = await gateway.wait_for_texts(2)
        await gateway.api.wait_until(lambda: gateway.is_finished())
        assert query.answer is not None
        assert len(query.answer.text.encode("utf-16-le")) // 2 <= 4096
        assert texts[0] == "hello"
        assert "word" in texts[1]
        assert ignored.answer is None
        assert gateway.texts(STRANGER) == []
        assert not any("and me?" in str(request.body) for request in gateway.endpoint.requests)


async def test_a_guest_asks_nobody_and_says_that_an_answer_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turn_factory, "MODEL_WAIT_SECONDS", 0.0)
    async with running_gateway(tmp_path, guest_mode="on", thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        quoted = gateway.api.person(STRANGER, "Sam").send("the sky is green", thread=elsewhere)
        page = format_tool_call("fetch_page", {"url": "http://example.com/?nobody=wrote"})
        gateway.endpoint.brain = lambda request: "I could not." if request.step else page
        query = gateway.ann.summon(f"{BOT} look it up", thread=elsewhere, reply_to=quoted)
        await wait_for_answer(gateway, query, "I could not.")
        assert "No host is called" not in gateway.endpoint.requests[-1].prompt  # it was not opened
        gateway.endpoint.inject_fault("unauthorized", times=None)
        lost = gateway.ann.summon(f"{BOT} and now?", thread=elsewhere)
        await wait_for_answer(gateway, lost, GUEST_ANSWER_LOST)
        assert gateway.api.calls_of("sendMessage", elsewhere.chat.id) == []
        assert not any(button for message in elsewhere.chat.bot_messages for button in message.buttons)


async def test_it_is_off_by_default(tmp_path: Path):
    async with running_gateway(tmp_path, thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        query = gateway.ann.summon(f"{BOT} why?", thread=elsewhere)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(1)
        polls = [call for call in gateway.api.calls if call.method == "getUpdates"]
        assert all("guest_message" not in call.params.text("allowed_updates") for call in polls)
        assert query.answer is None


async def test_a_query_that_came_too_late_is_told_of_in_private(tmp_path: Path):
    async with running_gateway(tmp_path, guest_mode="on", thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(1)
        query = gateway.ann.summon(f"{BOT} why?", thread=elsewhere)
        query.asked_at -= 60
        texts = await gateway.wait_for_texts(2)
        assert texts[1] == "I couldn't answer you in “Elsewhere”. Please ask me there again."
        assert len(gateway.endpoint.requests) == 1


async def test_forget_in_private_deletes_what_was_asked_in_chats_of_others(tmp_path: Path):
    async with running_gateway(tmp_path, guest_mode="on", thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(1)
        quoted = gateway.api.person(STRANGER, "Sam").send("a canary of Sam", thread=elsewhere)
        query = gateway.ann.summon(
            f"{BOT} a canary? @@say:Yes, a canary.@@", thread=elsewhere, reply_to=quoted
        )
        await wait_for_answer(gateway, query, "Yes, a canary.")
        gateway.ann.send("/forget")
        texts = await gateway.wait_for_texts(2)
        assert GUEST_NOTICE in texts[1]
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[-1], "Forget it all")
        await gateway.api.wait_until(lambda: FORGOTTEN_TEXT in gateway.texts())
        await wait_until_forgotten(gateway)
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert [file.name for file in files if b"canary" in file.read_bytes()] == []
        assert query.answer is not None
        assert query.answer.text == "Yes, a canary."  # what stands in a chat stays there


async def wait_until_forgotten(gateway: GatewayHarness) -> None:
    """Wait for the jobs of the other lanes; only the private chat's is told of."""
    pending = select(inbox.c.id).where(inbox.c.kind == "system", inbox.c.state != "done")
    async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
        while True:
            async with database.read_transaction() as tx:
                if (await tx.execute(pending)).first() is None:
                    return
            await asyncio.sleep(0.05)


async def test_a_query_from_before_a_forget_is_forgotten_after_its_answer(database: Database):
    row = {"kind": "update", "shape": "guest", "sender": 7, "body": "{}", "state": "running"}
    lane = Lane.for_guest(7, ELSEWHERE)
    job = {"kind": "system", "shape": "other", "lane": "7", "state": "done"}
    body = '{"job": "forget", "asked_at": 2.0, "tell": true, "language": "en"}'
    async with database.transaction() as tx:
        await tx.execute(insert(inbox).values(row | {"received_at": 1.0}))
        await tx.execute(insert(inbox).values(job | {"body": body, "received_at": 2.0}))
        await tx.execute(insert(inbox).values(row | {"received_at": 3.0}))
        for number in (1, 3):
            await guest_queries.store_answered(tx, number, lane, text="…", inline_message_id="a", now=4.0)
        assert await retention.list_lanes(tx, 7) == [Lane(7), lane]
        query = select(inbox.c.lane, inbox.c.body).where(inbox.c.id > 3)
        [again] = (await tx.execute(query)).all()
    assert again.lane == lane.key
    assert json.loads(again.body) == json.loads(body) | {"tell": False, "asked_at": 4.0}


async def test_an_answer_that_the_other_chat_refuses_comes_in_private(tmp_path: Path):
    async with running_gateway(tmp_path, guest_mode="on", thinking="off") as gateway:
        elsewhere = open_elsewhere(gateway)
        gateway.ann.send("@@say:hello@@")
        await gateway.wait_for_texts(1)
        refusal = BotApiFault.refuse("Bad Request: PEER_ID_INVALID")
        gateway.api.inject_fault(
            refusal, "editMessageText", when=lambda call: "inline_message_id" in call.params
        )
        gateway.ann.summon(f"{BOT} why? @@say:Because.@@", thread=elsewhere)
        texts = await gateway.wait_for_texts(2)
        gateway.ann.send("@@say:still here@@")
        assert texts[1] == "Because."
        assert (await gateway.wait_for_texts(3))[2] == "still here"
