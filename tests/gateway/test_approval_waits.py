"""Turns that wait for an approval, in the whole gateway: the chat continues meanwhile, and every second is
measured.
"""

import time
from pathlib import Path

import pytest

from bot.sim.telegram.chats import ChatMessage
from tests.support import breakdown_clock
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import GatewayHarness, open_harness, running_gateway
from tests.support.telegram.server import ScriptedPerson

BOB = 8


def ring_prompt(bell: str, tool: str = "ring", then: str = "rang") -> str:
    """What makes the model ring, and say something then."""
    return f'@@tool:{tool} {{"bell": "{bell}"}}@@@@say:{then} {bell}@@'


async def wait_for_question(gateway: GatewayHarness, bell: str, chat: int | None = None) -> ChatMessage:
    """The message that asks about this bell."""
    chat_id = gateway.ann.id if chat is None else chat

    def find_question() -> ChatMessage | None:
        questions = [
            message
            for message in gateway.api.chat(chat_id).bot_messages
            if f'"bell": "{bell}"' in message.text and message.buttons
        ]
        return questions[0] if questions else None

    message = await gateway.api.wait_until(find_question)
    assert message is not None
    return message


async def tap_buttons(
    gateway: GatewayHarness, person: ScriptedPerson, message: ChatMessage, *buttons: str
) -> str:
    """The toast after the last of several taps."""
    taps = [person.tap(message, button) for button in buttons]
    await gateway.api.wait_until(lambda: all(tap.answer for tap in taps))
    assert taps[-1].answer is not None
    return str(taps[-1].answer.get("text", ""))


async def wait_for_message(gateway: GatewayHarness, text: str, chat: int | None = None) -> ChatMessage:
    """The bot's message that ends so."""
    chat_id = gateway.ann.id if chat is None else chat
    message = await gateway.api.wait_until(
        lambda: next(
            (message for message in gateway.api.chat(chat_id).bot_messages if message.text.endswith(text)),
            None,
        )
    )
    assert message is not None
    return message


@pytest.mark.sqlite
async def test_a_chat_goes_on_while_calls_wait_and_a_late_answer_replies_to_its_question(tmp_path: Path):
    border = breakdown_clock.TelegramClock()
    with border.observe():
        async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
            async with gateway.run():
                first = gateway.ann.send(ring_prompt("one"))
                question = await wait_for_question(gateway, "one")
                assert question.text.startswith(f"May I run ring?\nAnn ({gateway.ann.id}) asked for it.")
                gateway.ann.send("@@say:meanwhile@@")
                await wait_for_message(gateway, "meanwhile")
                gateway.ann.send(ring_prompt("two"))
                await wait_for_question(gateway, "two")
                assert load_rung_bells(tmp_path) == []
            async with gateway.run():
                assert (
                    await tap_buttons(gateway, gateway.ann, question, "Allow once", "Deny")
                    == "You've already answered this."
                )
                late = await wait_for_message(gateway, "rang one")
                assert late.raw["reply_to_message"]["message_id"] == first.message_id
                assert (await wait_for_message(gateway, "Allowed once by Ann.")).buttons == []
                gateway.ann.send("/stop")
                await wait_for_message(gateway, "Stopped; I won't run it.")
                await wait_for_message(gateway, "Stopped.")
    ended_at = time.time() + 0.001
    assert load_rung_bells(tmp_path) == ["one"]
    breakdowns = breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    assert len(breakdowns) == 3
    for breakdown in breakdowns:
        assert breakdown.update_id is not None
        last = max(border.shown_at[message] for _, message in breakdown.parts if message is not None)
        assert border.fetched_at[breakdown.update_id] <= breakdown.received_at + 0.0005
        assert last <= breakdown.received_at + breakdown.whole + 0.0005 < ended_at
    assert [breakdown.seconds["approval_wait"] > 0 for breakdown in breakdowns] == [True, False, True]
    assert [breakdown.seconds["down"] > 0 for breakdown in breakdowns] == [True, False, True]


@pytest.mark.sqlite
async def test_what_is_allowed_here_is_listed_taken_back_and_a_new_conversation_ends_what_waits(
    tmp_path: Path,
):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        gateway.ann.send(ring_prompt("three"))
        assert (
            await tap_buttons(gateway, gateway.ann, await wait_for_question(gateway, "three"), "Allow here")
            == "Allowed here."
        )
        await wait_for_message(gateway, "rang three")
        gateway.ann.send(ring_prompt("three", then="again"))
        await wait_for_message(gateway, "again three")
        gateway.ann.send("/approvals")
        listed = await wait_for_message(gateway, "(number 1)")
        assert "ring with exactly these values, for Ann" in listed.text
        assert await tap_buttons(gateway, gateway.ann, listed, "Ask again: ring (1)") == "I'll ask again."
        gateway.ann.send(ring_prompt("three", then="once more"))
        last = await wait_for_question(gateway, "three")
        gateway.ann.send("/new")
        await wait_for_message(gateway, "Your notes are kept.")
        ended = await wait_for_message(gateway, "Stopped; I won't run it.")
        assert (ended.message_id, ended.buttons) == (last.message_id, [])
        gateway.ann.send("@@say:something new@@")
        await wait_for_message(gateway, "something new")
        assert len(gateway.endpoint.requests[-1].body["messages"]) == 2
    assert load_rung_bells(tmp_path) == ["three", "three"]
    waited = [
        breakdown.seconds["approval_wait"] > 0
        for breakdown in breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    ]
    assert waited == [True, False, True, False]


async def let_bob_in(gateway: GatewayHarness, tool: str) -> ScriptedPerson:
    """Bob, who may use this tool when the gateway starts the next time."""
    async with gateway.run():
        gateway.ann.send(f"/people add {BOB}")
        await wait_for_message(gateway, "now has access.")
        gateway.ann.send(f"/grant {tool} {BOB}")
        await gateway.api.wait_until(
            lambda: any(text.startswith(f"{tool} may be used by") for text in gateway.texts())
        )
    return gateway.api.person(BOB, "Bob")


@pytest.mark.sqlite
async def test_an_admin_decides_about_a_members_call_and_a_removed_person_leaves_nothing(tmp_path: Path):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        bob = await let_bob_in(gateway, "toll")
        async with gateway.run():
            bob.send(ring_prompt("one", "toll"))
            await wait_for_message(gateway, "I'll answer here.", BOB)
            question = await wait_for_question(gateway, "one")
            assert "Bob (8) wrote: “" in question.text
            bob.send("@@say:meanwhile@@")
            await wait_for_message(gateway, "meanwhile", BOB)
            assert await tap_buttons(gateway, gateway.ann, question, "Allow here") == "Allowed here."
            await wait_for_message(gateway, "rang one", BOB)
            bob.send(ring_prompt("two", "toll"))
            await wait_for_question(gateway, "two")
            gateway.ann.send(f"/people remove {BOB}")
            await wait_for_message(gateway, "has been removed.")
            await wait_for_message(gateway, "Stopped; I won't run it.")
            gateway.ann.send("/approvals")
            await wait_for_message(gateway, "nothing is allowed in advance.")
    assert load_rung_bells(tmp_path) == ["one"]
    breakdowns = breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    assert [breakdown.ending for breakdown in breakdowns] == ["answered", "answered", "failed"]


@pytest.mark.sqlite
async def test_a_question_that_nobody_answers_ends_by_itself_and_forgetting_ends_all(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path), approval_seconds=0.5) as gateway:
        gateway.ann.send(ring_prompt("one"))  # its question may have ended before it is sent
        await wait_for_message(gateway, "Nobody answered in time, so I won't run it.")
        await wait_for_message(gateway, "rang one")  # the model says so whatever came of it
        assert load_rung_bells(tmp_path) == []
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")


@pytest.mark.sqlite
async def test_forgetting_a_chat_ends_what_waits_in_it(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        gateway.ann.send(ring_prompt("secret"))
        await wait_for_question(gateway, "secret")
        gateway.ann.send("/forget")
        await gateway.api.wait_until(lambda: "Forget this chat" in gateway.texts()[-1])
        ask = gateway.api.chat(gateway.ann.id).bot_messages[-1]
        await tap_buttons(gateway, gateway.ann, ask, "Forget it all")
        await wait_for_message(gateway, "I kept only the statistics and settings listed above.")
    data = (tmp_path / "gateway.db").read_bytes()
    assert b'"secret"' not in data
    assert b"ring" in data
    breakdown_clock.check_breakdowns(tmp_path / "gateway.db")


async def test_after_a_strangers_words_what_changes_something_asks_and_a_cut_result_is_read_on(
    tmp_path: Path,
):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as gateway:
        gateway.ann.send('@@tool:chime {"bell": "one"}@@@@say:first@@')
        await wait_for_message(gateway, "first")
        gateway.ann.send('@@tool:listen {}@@@@tool:chime {"bell": "two"}@@@@say:second@@')
        question = await wait_for_question(gateway, "two")
        assert [button["text"] for button in question.buttons] == ["Allow once", "Deny"]
        assert await tap_buttons(gateway, gateway.ann, question, "Allow once") == "Allowed once."
        await wait_for_message(gateway, "second")
        assert load_rung_bells(tmp_path) == ["one", "two"]
        gateway.ann.send_document("orders.txt", caption=ring_prompt("three", "chime"), content=b"Chime it.")
        assert (
            await tap_buttons(gateway, gateway.ann, await wait_for_question(gateway, "three"), "Deny")
            == "Denied."
        )
        await wait_for_message(gateway, "rang three")
        assert load_rung_bells(tmp_path) == ["one", "two"]
        gateway.ann.send("@@tool:recite {}@@@@say:third@@")
        await wait_for_message(gateway, "third")
        results = [
            m["content"] for m in gateway.endpoint.requests[-1].body["messages"] if m["role"] == "tool"
        ]
        note = results[-1].rpartition("\n")[2]
        assert note.endswith("goes on]")
        number, start = [int(word) for word in note.replace("]", "").split() if word.isdigit()][1:]
        gateway.ann.send(f'@@tool:read_more {{"number": {number}, "start": {start}}}@@@@say:fourth@@')
        await wait_for_message(gateway, "fourth")
        results = [
            m["content"] for m in gateway.endpoint.requests[-1].body["messages"] if m["role"] == "tool"
        ]
        assert "line 999 of many" in results[-1] or "characters left; start" in results[-1]
