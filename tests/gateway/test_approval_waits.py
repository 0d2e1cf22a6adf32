"""Turns that wait for a person, in the whole house: the chat goes on meanwhile, and every second is accounted
for.
"""

from pathlib import Path

import pytest

from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import Person
from tests.support import breakdown_clock as books
from tests.support.approval_tools import hung, rung
from tests.support.gateway import World, open_house, world

BOB = 8


def asks(bell: str, tool: str = "ring", then: str = "rang") -> str:
    """What makes the model ring, and say something then."""
    return f'@@tool:{tool} {{"bell": "{bell}"}}@@@@say:{then} {bell}@@'


async def question(house: World, bell: str, chat: int | None = None) -> ChatMessage:
    """The message that asks about this bell."""
    where = house.ann.id if chat is None else chat

    def found() -> ChatMessage | None:
        asked = [
            one for one in house.api.chat(where).from_bot if f'"bell": "{bell}"' in one.text and one.buttons
        ]
        return asked[0] if asked else None

    message = await house.api.until(found)
    assert message is not None
    return message


async def tapped(house: World, person: Person, message: ChatMessage, *buttons: str) -> str:
    """What is told over the chat after the last of several taps."""
    taps = [person.tap(message, button) for button in buttons]
    await house.api.until(lambda: all(tap.answer for tap in taps))
    assert taps[-1].answer is not None
    return str(taps[-1].answer.get("text", ""))


async def said(house: World, text: str, chat: int | None = None) -> ChatMessage:
    """The bot's message that ends so."""
    where = house.ann.id if chat is None else chat
    found = await house.api.until(
        lambda: next((one for one in house.api.chat(where).from_bot if one.text.endswith(text)), None)
    )
    assert found is not None
    return found


async def test_a_chat_goes_on_while_calls_wait_and_a_late_answer_replies_to_its_question(tmp_path: Path):
    border = books.Border()
    with border.watched():
        async with world(tmp_path, tools_dir=hung(tmp_path)) as house:
            async with house.gateway():
                first = house.ann.send(asks("one"))
                asked = await question(house, "one")
                assert asked.text.startswith(f"May I run ring?\nAnn ({house.ann.id}) asked for it.")
                house.ann.send("@@say:meanwhile@@")
                await said(house, "meanwhile")
                house.ann.send(asks("two"))
                await question(house, "two")
                assert rung(tmp_path) == []
            async with house.gateway():
                assert (
                    await tapped(house, house.ann, asked, "Allow once", "Deny") == "You have answered this."
                )
                late = await said(house, "rang one")
                assert late.raw["reply_to_message"]["message_id"] == first.message_id
                assert (await said(house, "Allowed once by Ann.")).buttons == []
                house.ann.send("/stop")
                await said(house, "Stopped; it is not run.")
                await said(house, "Stopped.")
    assert rung(tmp_path) == ["one"]
    found = books.check(tmp_path / "house.db")
    assert len(found) == 3
    for book in found:
        assert book.update_id is not None
        last = max(border.shown[message] for _, message in book.parts if message is not None)
        assert border.fetched[book.update_id] + book.whole == pytest.approx(last, abs=0.5)
    assert [book.seconds["approval_wait"] > 0 for book in found] == [True, False, True]
    assert [book.seconds["down"] > 0 for book in found] == [True, False, True]


async def test_what_is_allowed_here_is_listed_taken_back_and_a_parked_turn_stays_out_of_a_new_conversation(
    tmp_path: Path,
):
    async with open_house(tmp_path, tools_dir=hung(tmp_path)) as house:
        house.ann.send(asks("three"))
        assert await tapped(house, house.ann, await question(house, "three"), "Allow here") == "Allowed here."
        await said(house, "rang three")
        house.ann.send(asks("three", then="again"))
        await said(house, "again three")
        house.ann.send("/approvals")
        listed = await said(house, "(number 1)")
        assert "ring for just these arguments, for Ann" in listed.text
        assert await tapped(house, house.ann, listed, "Ask again: ring (1)") == "It asks again."
        house.ann.send(asks("three", then="once more"))
        last = await question(house, "three")
        house.ann.send("/new")
        await said(house, "Your notes stay.")
        assert await tapped(house, house.ann, last, "Deny") == "Denied."
        await said(house, "once more three")
        house.ann.send("@@say:something new@@")
        await said(house, "something new")
        assert len(house.endpoint.requests[-1].body["messages"]) == 2
    assert rung(tmp_path) == ["three", "three"]
    waited = [book.seconds["approval_wait"] > 0 for book in books.check(tmp_path / "house.db")]
    assert waited == [True, False, True, False]


async def let_bob_in(house: World, tool: str) -> Person:
    """Bob, who may use this tool when the gateway starts the next time."""
    async with house.gateway():
        house.ann.send(f"/people add {BOB}")
        await said(house, "is in.")
        house.ann.send(f"/grant {tool} {BOB}")
        await house.api.until(
            lambda: any(text.startswith(f"{tool} may be used by") for text in house.texts())
        )
    return house.api.person(BOB, "Bob")


async def test_an_admin_decides_about_a_members_call_and_a_removed_person_leaves_nothing(tmp_path: Path):
    async with world(tmp_path, tools_dir=hung(tmp_path)) as house:
        bob = await let_bob_in(house, "toll")
        async with house.gateway():
            bob.send(asks("one", "toll"))
            await said(house, "I answer here.", BOB)
            asked = await question(house, "one")
            assert "Bob (8) asked for it." in asked.text
            bob.send("@@say:meanwhile@@")
            await said(house, "meanwhile", BOB)
            assert await tapped(house, house.ann, asked, "Allow here") == "Allowed here."
            await said(house, "rang one", BOB)
            bob.send(asks("two", "toll"))
            await question(house, "two")
            house.ann.send(f"/people remove {BOB}")
            await said(house, "is out.")
            await said(house, "Stopped; it is not run.")
            house.ann.send("/approvals")
            assert (await said(house, "Nothing is allowed ahead.")).text.count("Nothing") == 2
    assert rung(tmp_path) == ["one"]
    found = books.check(tmp_path / "house.db")
    assert [book.ending for book in found] == ["answered", "answered", "failed"]


async def test_a_question_that_nobody_answers_ends_by_itself_and_forgetting_ends_all(tmp_path: Path):
    async with open_house(tmp_path, tools_dir=hung(tmp_path), approval_seconds=0.5) as house:
        house.ann.send(asks("one"))
        await question(house, "one")
        await said(house, "Nobody answered in time; it is not run.")
        await said(house, "rang one")  # the model says so whatever came of it
        assert rung(tmp_path) == []
    books.check(tmp_path / "house.db")


async def test_forgetting_a_chat_ends_what_waits_in_it(tmp_path: Path):
    async with open_house(tmp_path, tools_dir=hung(tmp_path)) as house:
        house.ann.send(asks("secret"))
        await question(house, "secret")
        house.ann.send("/forget")
        await house.api.until(lambda: "Shall I forget" in house.texts()[-1])
        ask = house.api.chat(house.ann.id).from_bot[-1]
        await tapped(house, house.ann, ask, "Forget it all")
        await said(house, "what I named before.")
    data = (tmp_path / "house.db").read_bytes()
    assert b'"secret"' not in data
    assert b"ring" in data
    books.check(tmp_path / "house.db")


async def test_after_a_strangers_words_what_changes_something_asks_and_a_cut_result_is_read_on(
    tmp_path: Path,
):
    async with open_house(tmp_path, tools_dir=hung(tmp_path)) as house:
        house.ann.send('@@tool:chime {"bell": "one"}@@@@say:first@@')
        await said(house, "first")
        house.ann.send('@@tool:listen {}@@@@tool:chime {"bell": "two"}@@@@say:second@@')
        asked = await question(house, "two")
        assert [button["text"] for button in asked.buttons] == ["Allow once", "Deny"]
        assert await tapped(house, house.ann, asked, "Allow once") == "Allowed once."
        await said(house, "second")
        assert rung(tmp_path) == ["one", "two"]
        house.ann.send_document("orders.txt", caption=asks("three", "chime"), content=b"Chime it.")
        assert await tapped(house, house.ann, await question(house, "three"), "Deny") == "Denied."
        await said(house, "rang three")
        assert rung(tmp_path) == ["one", "two"]
        house.ann.send("@@tool:recite {}@@@@say:third@@")
        await said(house, "third")
        results = [m["content"] for m in house.endpoint.requests[-1].body["messages"] if m["role"] == "tool"]
        note = results[-1].rpartition("\n")[2]
        assert note.endswith("goes on]")
        number, start = [int(word) for word in note.replace("]", "").split() if word.isdigit()][1:]
        house.ann.send(f'@@tool:read_more {{"number": {number}, "start": {start}}}@@@@say:fourth@@')
        await said(house, "fourth")
        results = [m["content"] for m in house.endpoint.requests[-1].body["messages"] if m["role"] == "tool"]
        assert "line 999 of many" in results[-1] or "characters left; start" in results[-1]
