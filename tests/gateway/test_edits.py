"""Edited messages in the whole gateway: what waits reads differently, what runs begins again, what was
answered is answered again in its place, and nothing leaves the conversation that nobody agreed to.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.chat.commands.edited_messages import NOT_ANSWERED, TOO_OLD
from bot.sim.telegram.chats import ChatMessage
from tests.support.approval_tools import install_bells, load_rung_bells
from tests.support.cache_warmup import wait_until
from tests.support.gateway import GatewayHarness, is_being_written, running_gateway
from tests.support.group_chat import GROUP, GroupHarness, open_group, turn_on_reading
from tests.support.telegram.server import ScriptedPerson

HOLD_SECONDS = 1.0  # edits that come one after another are fetched within that


def load_rows(tmp_path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as database:
        return database.execute(query, values).fetchall()


def load_turns(tmp_path: Path, chat: int) -> list[tuple[str, str | None]]:
    """State and ending of a chat's turns, in their order."""
    return load_rows(tmp_path, "select state, ending from turns where lane = ? order by id", str(chat))


async def ask(gateway: GatewayHarness, person: ScriptedPerson, *words: str) -> list[Any]:
    """Say these words one after another, each once the one before it is answered."""
    messages = []
    for word in words:
        messages.append(person.send(f"@@say:{word}@@"))
        await wait_for_message(gateway, person, word)
    return messages


async def wait_for_message(gateway: GatewayHarness, person: ScriptedPerson, text: str) -> ChatMessage:
    """The bot's message in a chat that says this and nothing else below it, without a Stop button."""

    def find() -> ChatMessage | None:
        messages = gateway.api.chat(person.id).bot_messages
        return next((message for message in messages if is_shown(message, text)), None)

    message = await gateway.api.wait_until(find)
    assert message is not None
    return message


def is_shown(message: ChatMessage, text: str) -> bool:
    return message.text.startswith(text) and not is_being_written(message)


async def wait_for_newest(group: GroupHarness, text: str) -> None:
    """Wait until the bot's newest message in the group is this one, and whole."""
    await group.api.wait_until(lambda: group.texts()[-1].endswith(text) and group.is_finished())


def find_prompt(gateway: GatewayHarness, words: str) -> str:
    """The first prompt with these words."""
    return next(request.prompt for request in gateway.endpoint.requests if words in request.prompt)


def replied_to(message: ChatMessage) -> int | None:
    reply = message.raw.get("reply_to_message")
    return None if reply is None else reply["message_id"]


@pytest.mark.sqlite
async def test_edits_of_what_was_answered(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", edit_hold_seconds=HOLD_SECONDS) as gateway:
        people = [gateway.api.person(number, f"P{number}") for number in range(10, 15)]
        await asyncio.gather(
            answer_the_newest_in_place(gateway, people[0], tmp_path),
            answer_below_newer_messages(gateway, people[1], tmp_path),
            ask_before_an_older_one(gateway, people[2], tmp_path),
            answer_messages_that_were_merged(gateway, people[3], tmp_path),
            say_once_that_it_is_too_old(gateway, people[4], tmp_path),
            edit_in_a_group(gateway, tmp_path),
        )


async def answer_the_newest_in_place(gateway: GatewayHarness, person: ScriptedPerson, tmp_path: Path):
    _, message = await ask(gateway, person, "hello", "capitol")
    answer = await wait_for_message(gateway, person, "capitol")
    calls = len(gateway.endpoint.requests)
    person.edit_metadata(message)
    person.edit(message, "@@say:/stop@@")
    person.edit(message, "@@say:capital@@")
    changed = await wait_for_message(gateway, person, "capital")
    assert changed.message_id == answer.message_id
    assert gateway.texts(person.id) == ["hello", "capital"]
    assert load_turns(tmp_path, person.id) == [
        ("ended", "answered"),
        ("replaced", "answered"),
        ("ended", "answered"),
    ]
    prompts = [request.prompt for request in gateway.endpoint.requests[calls:] if "capital" in request.prompt]
    assert len(prompts) == 1
    assert "capitol" not in prompts[0]
    person.send("/retry")
    await gateway.api.wait_until(
        lambda: gateway.texts(person.id).count("capital") == 2 and gateway.is_finished(person.id)
    )
    person.edit(message, "@@say:repeated@@")
    await wait_for_message(gateway, person, "repeated")
    assert [state for state, _ in load_turns(tmp_path, person.id)] == ["ended", *["replaced"] * 3, "ended"][
        -5:
    ]


async def answer_below_newer_messages(gateway: GatewayHarness, person: ScriptedPerson, tmp_path: Path):
    [message] = await ask(gateway, person, "noon")
    person.send("/id")
    await gateway.wait_for_texts(2, person.id)
    person.edit(message, "@@say:midnight@@")
    answer = await wait_for_message(gateway, person, "midnight")
    assert replied_to(answer) == message.message_id
    assert gateway.texts(person.id)[0] == "noon"
    assert load_turns(tmp_path, person.id)[0] == ("replaced", "answered")


async def ask_before_an_older_one(gateway: GatewayHarness, person: ScriptedPerson, tmp_path: Path):
    messages = await ask(gateway, person, "one", "two", "three")
    person.edit(messages[0], "@@say:uno@@")
    card = await wait_for_message(gateway, person, "You edited a message")
    assert "the 2 questions after it and my answers." in card.text
    assert replied_to(card) == messages[0].message_id
    person.tap(card, "Leave as is")
    await gateway.api.wait_until(lambda: card.text == "I've left my answer as it is.")
    assert {state for state, _ in load_turns(tmp_path, person.id)} == {"ended"}
    person.edit(messages[1], "@@say:dos@@")
    card = await wait_for_message(gateway, person, "You edited a message")
    assert "the question after it and my answer." in card.text
    person.tap(card, "Answer again")
    answer = await wait_for_message(gateway, person, "dos")
    assert replied_to(answer) == messages[1].message_id
    await ask(gateway, person, "quatro")
    states = [state for state, _ in load_turns(tmp_path, person.id)]
    assert states == ["ended", "replaced", "replaced", "ended", "ended"]
    prompt = find_prompt(gateway, "quatro")
    assert "say:three" not in prompt
    assert "say:dos" in prompt


async def answer_messages_that_were_merged(gateway: GatewayHarness, person: ScriptedPerson, tmp_path: Path):
    pasted = person.paste("@@say:merged@@ " + "word " * 2000 + "end")
    answer = await wait_for_message(gateway, person, "merged")
    assert len(pasted) == 3
    person.edit(pasted[2], "the corrected tail")
    await wait_until(lambda: load_turns(tmp_path, person.id)[1:] == [("ended", "answered")])
    rows = load_rows(
        tmp_path, "select count(*) from inbox where lane = ? and turn is not null", str(person.id)
    )
    assert rows == [(6,)]
    prompt = next(
        request.prompt for request in gateway.endpoint.requests if "corrected tail" in request.prompt
    )
    assert prompt.index("say:merged") < prompt.index("corrected tail")
    assert (await wait_for_message(gateway, person, "merged")).message_id == answer.message_id


async def say_once_that_it_is_too_old(gateway: GatewayHarness, person: ScriptedPerson, tmp_path: Path):
    messages = await ask(gateway, person, "past", "present")
    person.send("/new")
    await gateway.wait_for_texts(3, person.id)
    person.edit(messages[0], "@@say:other past@@")
    await wait_for_message(gateway, person, TOO_OLD)
    person.edit(messages[1], "@@say:other present@@")
    query = "select count(*) from inbox where lane = ? and shape = 'edit' and state = 'done'"
    await wait_until(lambda: load_rows(tmp_path, query, str(person.id)) == [(2,)])
    assert gateway.texts(person.id).count(TOO_OLD) == 1


async def edit_in_a_group(gateway: GatewayHarness, tmp_path: Path):
    group = open_group(gateway.api, gateway.ann, hears_everything=True)
    await group.wait_for_texts()
    await ask_only_the_writer(gateway, group)
    await turn_on_reading(gateway, "Team")
    await group.wait_for_texts(6)
    await judge_edits_by_what_was_asked(gateway, group, tmp_path)


async def judge_edits_by_what_was_asked(gateway: GatewayHarness, group: GroupHarness, tmp_path: Path):
    group.ben.send("lunch at one?", thread=group.group)
    asked = group.ann.send("@canvasgram_sim_bot @@say:yes@@", thread=group.group)
    await wait_for_newest(group, "yes")
    answers = len(group.texts())
    known = count_group_items(tmp_path)
    overheard = group.cleo.send("@@say:ciao@@", thread=group.group)
    group.cleo.edit_metadata(overheard, thread=group.group)
    group.cleo.edit(overheard, "@@say:salve@@", thread=group.group)
    group.ann.edit(asked, "@@say:no@@ after all", thread=group.group)  # the mention goes
    await wait_for_newest(group, "no")
    prompt = find_prompt(gateway, "after all")
    assert prompt.count("lunch at one?") == 1
    assert prompt.index("lunch at one?") < prompt.index("say:no")
    assert len(group.texts()) == answers
    assert count_group_items(tmp_path) == known + 2  # the edit, and its question

    group.cleo.edit(overheard, "@canvasgram_sim_bot @@say:buongiorno@@", thread=group.group)
    await wait_for_newest(group, "buongiorno")
    assert replied_to(group.group.chat.bot_messages[-1]) == overheard.message_id
    command = group.ben.send("/help@canvasgram_sim_bot", thread=group.group)
    await group.wait_for_texts(answers + 2)
    group.ben.edit(command, "@canvasgram_sim_bot @@say:never@@", thread=group.group)
    group.ben.send("/ask @@say:last@@", thread=group.group)
    await wait_for_newest(group, "last")
    assert "salve" not in find_prompt(gateway, "say:last")
    assert not any("say:never" in request.prompt for request in gateway.endpoint.requests)


def count_group_items(tmp_path: Path) -> int:
    """The inbox items of the group; those of the people beside it come at any time."""
    [(count,)] = load_rows(tmp_path, "select count(*) from inbox where lane = ?", str(GROUP))
    return int(count)


async def ask_only_the_writer(gateway: GatewayHarness, group: GroupHarness):
    message = group.ann.send("/ask @@say:one@@", thread=group.group)
    await group.wait_for_texts(2)
    group.ben.send("/ask @@say:two@@", thread=group.group)
    await group.wait_for_texts(3)
    group.ann.edit(message, "/ask @@say:uno@@", thread=group.group)
    await group.wait_for_texts(4)
    card = group.group.chat.bot_messages[-1]
    assert "the question after it and my answer" in card.text
    tap = group.ben.tap(card, "Answer again", thread=group.group)
    await gateway.api.wait_until(lambda: tap.answer)
    assert tap.answer == {
        "text": "Only the person who edited the message can answer this.",
        "show_alert": False,
    }
    group.ann.tap(card, "Answer again", thread=group.group)
    await wait_for_newest(group, "uno")


@pytest.mark.sqlite
async def test_edits_of_what_waits_runs_or_asks(tmp_path: Path):
    opened = running_gateway(tmp_path, tools_dir=install_bells(tmp_path), edit_hold_seconds=HOLD_SECONDS)
    async with opened as gateway:
        ann = gateway.ann
        gateway.endpoint.hold()
        running = ann.send("@@say:first@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        waiting = ann.send("the capitol of Frnace")
        photo = ann.send_video("Is it saef?")
        ann.edit(waiting, "the capital of France")
        ann.edit_caption(photo, "@@say:Is it safe?@@")
        ann.edit(running, "@@say:second@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
        gateway.endpoint.release()
        answer = await wait_for_message(gateway, ann, "(I couldn't use your video")
        assert gateway.texts() == [answer.text]
        assert replied_to(answer) == running.message_id
        assert load_turns(tmp_path, ann.id) == [("replaced", "edited"), ("ended", "answered")]
        prompt = gateway.endpoint.requests[-1].prompt
        assert prompt.index("second") < prompt.index("capital of France") < prompt.index("safe?")
        assert "say:first" not in prompt

        ringing = ann.send('@@tool:ring {"bell": "one"}@@@@say:rang one@@')
        question = await wait_for_message(gateway, ann, "May I run ring?")
        ann.edit(ringing, '@@tool:ring {"bell": "two"}@@@@say:rang two@@')
        await gateway.api.wait_until(lambda: "Stopped; I won't run it." in question.text)
        asked_again = await gateway.api.wait_until(
            lambda: next((m for m in gateway.api.chat(ann.id).bot_messages if '"two"' in m.text), None)
        )
        assert asked_again is not None
        ann.tap(asked_again, "Allow once")
        await wait_for_message(gateway, ann, "rang two")
        assert load_turns(tmp_path, ann.id)[2:] == [("replaced", "edited"), ("ended", "answered")]
        ann.edit(ringing, "@@say:silence@@")
        card = await wait_for_message(gateway, ann, "You edited a message")
        assert "I used ring for it" in card.text
        ann.tap(card, "Answer again")
        await wait_for_message(gateway, ann, "silence")
        await stop_what_cannot_be_done_twice(gateway)
    assert load_rung_bells(tmp_path) == ["two", "three"]


async def stop_what_cannot_be_done_twice(gateway: GatewayHarness):
    ann = gateway.ann
    ringing = ann.send('@@tool:ring {"bell": "three"}@@@@say:rang three@@')
    question = await gateway.api.wait_until(
        lambda: next((m for m in gateway.api.chat(ann.id).bot_messages if '"three"' in m.text), None)
    )
    assert question is not None
    gateway.endpoint.hold()
    ann.tap(question, "Allow once")
    await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
    ann.edit(ringing, "@@say:never mind@@")
    await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
    gateway.endpoint.release()
    card = await wait_for_message(gateway, ann, "You edited a message")
    assert [button["text"] for button in card.buttons] == ["Answer again", "Don't answer"]
    ann.tap(card, "Don't answer")
    await gateway.api.wait_until(lambda: card.text == NOT_ANSWERED)
    assert "rang three" not in gateway.texts()
