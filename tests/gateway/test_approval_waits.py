"""Turns that wait for a person, in the whole house: the chat goes on meanwhile, and every second is accounted
for.
"""

from pathlib import Path

import pytest

from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import SimulatedPerson
from tests.support import breakdown_clock as books
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.gateway import GatewayHarness, open_harness, running_gateway

BOB = 8


def ring_prompt(bell: str, tool: str = "ring", then: str = "rang") -> str:
    """What makes the model ring, and say something then."""
    return f'@@tool:{tool} {{"bell": "{bell}"}}@@@@say:{then} {bell}@@'


async def wait_for_question(gateway: GatewayHarness, bell: str, chat: int | None = None) -> ChatMessage:
    """The message that asks about this bell."""
    where = gateway.ann.id if chat is None else chat

    def find_question() -> ChatMessage | None:
        asked = [
            one
            for one in gateway.api.chat(where).bot_messages
            if f'"bell": "{bell}"' in one.text and one.buttons
        ]
        return asked[0] if asked else None

    message = await gateway.api.wait_until(find_question)
    assert message is not None
    return message


async def tap_buttons(
    gateway: GatewayHarness, person: SimulatedPerson, message: ChatMessage, *buttons: str
) -> str:
    """What is told over the chat after the last of several taps."""
    taps = [person.tap(message, button) for button in buttons]
    await gateway.api.wait_until(lambda: all(tap.answer for tap in taps))
    assert taps[-1].answer is not None
    return str(taps[-1].answer.get("text", ""))


async def wait_for_message(gateway: GatewayHarness, text: str, chat: int | None = None) -> ChatMessage:
    """The bot's message that ends so."""
    where = gateway.ann.id if chat is None else chat
    found = await gateway.api.wait_until(
        lambda: next((one for one in gateway.api.chat(where).bot_messages if one.text.endswith(text)), None)
    )
    assert found is not None
    return found


async def test_a_chat_goes_on_while_calls_wait_and_a_late_answer_replies_to_its_question(tmp_path: Path):
    border = books.TelegramClock()
    with border.observe():
        async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as house:
            async with house.run():
                first = house.ann.send(ring_prompt("one"))
                asked = await wait_for_question(house, "one")
                assert asked.text.startswith(f"May I run ring?\nAnn ({house.ann.id}) asked for it.")
                house.ann.send("@@say:meanwhile@@")
                await wait_for_message(house, "meanwhile")
                house.ann.send(ring_prompt("two"))
                await wait_for_question(house, "two")
                assert load_rung_bells(tmp_path) == []
            async with house.run():
                assert (
                    await tap_buttons(house, house.ann, asked, "Allow once", "Deny")
                    == "You have answered this."
                )
                late = await wait_for_message(house, "rang one")
                assert late.raw["reply_to_message"]["message_id"] == first.message_id
                assert (await wait_for_message(house, "Allowed once by Ann.")).buttons == []
                house.ann.send("/stop")
                await wait_for_message(house, "Stopped; it is not run.")
                await wait_for_message(house, "Stopped.")
    assert load_rung_bells(tmp_path) == ["one"]
    found = books.check_breakdowns(tmp_path / "house.db")
    assert len(found) == 3
    for book in found:
        assert book.update_id is not None
        last = max(border.shown_at[message] for _, message in book.parts if message is not None)
        assert border.fetched_at[book.update_id] + book.whole == pytest.approx(last, abs=0.5)
    assert [book.seconds["approval_wait"] > 0 for book in found] == [True, False, True]
    assert [book.seconds["down"] > 0 for book in found] == [True, False, True]


async def test_what_is_allowed_here_is_listed_taken_back_and_a_parked_turn_stays_out_of_a_new_conversation(
    tmp_path: Path,
):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        house.ann.send(ring_prompt("three"))
        assert (
            await tap_buttons(house, house.ann, await wait_for_question(house, "three"), "Allow here")
            == "Allowed here."
        )
        await wait_for_message(house, "rang three")
        house.ann.send(ring_prompt("three", then="again"))
        await wait_for_message(house, "again three")
        house.ann.send("/approvals")
        listed = await wait_for_message(house, "(number 1)")
        assert "ring for just these arguments, for Ann" in listed.text
        assert await tap_buttons(house, house.ann, listed, "Ask again: ring (1)") == "It asks again."
        house.ann.send(ring_prompt("three", then="once more"))
        last = await wait_for_question(house, "three")
        house.ann.send("/new")
        await wait_for_message(house, "Your notes stay.")
        assert await tap_buttons(house, house.ann, last, "Deny") == "Denied."
        await wait_for_message(house, "once more three")
        house.ann.send("@@say:something new@@")
        await wait_for_message(house, "something new")
        assert len(house.endpoint.requests[-1].body["messages"]) == 2
    assert load_rung_bells(tmp_path) == ["three", "three"]
    waited = [book.seconds["approval_wait"] > 0 for book in books.check_breakdowns(tmp_path / "house.db")]
    assert waited == [True, False, True, False]


async def let_bob_in(gateway: GatewayHarness, tool: str) -> SimulatedPerson:
    """Bob, who may use this tool when the gateway starts the next time."""
    async with gateway.run():
        gateway.ann.send(f"/people add {BOB}")
        await wait_for_message(gateway, "is in.")
        gateway.ann.send(f"/grant {tool} {BOB}")
        await gateway.api.wait_until(
            lambda: any(text.startswith(f"{tool} may be used by") for text in gateway.texts())
        )
    return gateway.api.person(BOB, "Bob")


async def test_an_admin_decides_about_a_members_call_and_a_removed_person_leaves_nothing(tmp_path: Path):
    async with open_harness(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        bob = await let_bob_in(house, "toll")
        async with house.run():
            bob.send(ring_prompt("one", "toll"))
            await wait_for_message(house, "I answer here.", BOB)
            asked = await wait_for_question(house, "one")
            assert "Bob (8) asked for it." in asked.text
            bob.send("@@say:meanwhile@@")
            await wait_for_message(house, "meanwhile", BOB)
            assert await tap_buttons(house, house.ann, asked, "Allow here") == "Allowed here."
            await wait_for_message(house, "rang one", BOB)
            bob.send(ring_prompt("two", "toll"))
            await wait_for_question(house, "two")
            house.ann.send(f"/people remove {BOB}")
            await wait_for_message(house, "is out.")
            await wait_for_message(house, "Stopped; it is not run.")
            house.ann.send("/approvals")
            assert (await wait_for_message(house, "Nothing is allowed ahead.")).text.count("Nothing") == 2
    assert load_rung_bells(tmp_path) == ["one"]
    found = books.check_breakdowns(tmp_path / "house.db")
    assert [book.ending for book in found] == ["answered", "answered", "failed"]


async def test_a_question_that_nobody_answers_ends_by_itself_and_forgetting_ends_all(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path), approval_seconds=0.5) as house:
        house.ann.send(ring_prompt("one"))
        await wait_for_question(house, "one")
        await wait_for_message(house, "Nobody answered in time; it is not run.")
        await wait_for_message(house, "rang one")  # the model says so whatever came of it
        assert load_rung_bells(tmp_path) == []
    books.check_breakdowns(tmp_path / "house.db")


async def test_forgetting_a_chat_ends_what_waits_in_it(tmp_path: Path):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        house.ann.send(ring_prompt("secret"))
        await wait_for_question(house, "secret")
        house.ann.send("/forget")
        await house.api.wait_until(lambda: "Shall I forget" in house.texts()[-1])
        ask = house.api.chat(house.ann.id).bot_messages[-1]
        await tap_buttons(house, house.ann, ask, "Forget it all")
        await wait_for_message(house, "what I named before.")
    data = (tmp_path / "house.db").read_bytes()
    assert b'"secret"' not in data
    assert b"ring" in data
    books.check_breakdowns(tmp_path / "house.db")


async def test_after_a_strangers_words_what_changes_something_asks_and_a_cut_result_is_read_on(
    tmp_path: Path,
):
    async with running_gateway(tmp_path, tools_dir=install_bells(tmp_path)) as house:
        house.ann.send('@@tool:chime {"bell": "one"}@@@@say:first@@')
        await wait_for_message(house, "first")
        house.ann.send('@@tool:listen {}@@@@tool:chime {"bell": "two"}@@@@say:second@@')
        asked = await wait_for_question(house, "two")
        assert [button["text"] for button in asked.buttons] == ["Allow once", "Deny"]
        assert await tap_buttons(house, house.ann, asked, "Allow once") == "Allowed once."
        await wait_for_message(house, "second")
        assert load_rung_bells(tmp_path) == ["one", "two"]
        house.ann.send_document("orders.txt", caption=ring_prompt("three", "chime"), content=b"Chime it.")
        assert (
            await tap_buttons(house, house.ann, await wait_for_question(house, "three"), "Deny") == "Denied."
        )
        await wait_for_message(house, "rang three")
        assert load_rung_bells(tmp_path) == ["one", "two"]
        house.ann.send("@@tool:recite {}@@@@say:third@@")
        await wait_for_message(house, "third")
        results = [m["content"] for m in house.endpoint.requests[-1].body["messages"] if m["role"] == "tool"]
        note = results[-1].rpartition("\n")[2]
        assert note.endswith("goes on]")
        number, start = [int(word) for word in note.replace("]", "").split() if word.isdigit()][1:]
        house.ann.send(f'@@tool:read_more {{"number": {number}, "start": {start}}}@@@@say:fourth@@')
        await wait_for_message(house, "fourth")
        results = [m["content"] for m in house.endpoint.requests[-1].body["messages"] if m["role"] == "tool"]
        assert "line 999 of many" in results[-1] or "characters left; start" in results[-1]
