"""Questions of the model's own, in the whole gateway: put with buttons, answered by a tap or in words."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from bot.sim.telegram.chats import ChatMessage
from bot.turns.tool_policy import ANSWERED_BELOW, ASKED_BEFORE, UNANSWERED
from tests.gateway.test_schedules import add_due_job, introduce_person
from tests.support import breakdown_clock
from tests.support.attachment_files import make_image
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.group_chat import GROUP, open_group
from tests.support.telegram.server import ScriptedPerson
from tools.builtin.ask import BAD_QUESTION, NOBODY_TO_ASK


def ask(*lines: str) -> str:
    """What makes the model ask a question with these choices."""
    return f"@@tool:ask {json.dumps({'question': chr(10).join(lines)})}@@"


async def wait_for_message(gateway: GatewayHarness, start: str, chat: int) -> ChatMessage:
    """The bot's newest message of a chat that begins so."""
    message = await gateway.api.wait_until(
        lambda: next(
            (
                message
                for message in gateway.api.chat(chat).bot_messages[::-1]
                if message.text.startswith(start)
            ),
            None,
        )
    )
    assert message is not None
    return message


async def wait_for_end(gateway: GatewayHarness, message: ChatMessage, end: str) -> None:
    """Wait until a message ends so: it is edited beside what follows from the answer."""
    await gateway.api.wait_until(lambda: message.text.endswith(end))


async def tap(
    gateway: GatewayHarness, person: ScriptedPerson, question: ChatMessage, button: str, times: int = 1
) -> list[str]:
    """The toasts of several taps on one button."""
    taps = [person.tap(question, button) for _ in range(times)]
    await gateway.api.wait_until(lambda: all(tap.answer for tap in taps))
    return [str(tap.answer.get("text", "")) for tap in taps if tap.answer is not None]


async def tap_late(gateway: GatewayHarness, person: ScriptedPerson, question: ChatMessage, data: str) -> str:
    """The toast after a tap on a button that the person's phone still shows."""
    query = {"id": f"late {data}", "from": person.user, "message": question.raw, "chat_instance": "1"}
    gateway.api.push_update({"callback_query": query | {"data": data}})

    def find_toast() -> str | None:
        calls = gateway.api.calls_of("answerCallbackQuery")
        toasts = {call.params["callback_query_id"]: call.params.get("text") for call in calls}
        return toasts.get(f"late {data}")

    toast = await gateway.api.wait_until(find_toast)
    assert toast is not None
    return toast


def list_results(gateway: GatewayHarness, words: str) -> list[str]:
    """What tools returned in the newest prompt that has these words."""
    requests = [request for request in gateway.endpoint.requests if words in str(request.body["messages"])]
    return [message["content"] for message in requests[-1].body["messages"] if message["role"] == "tool"]


@pytest.mark.sqlite
async def test_a_question_is_answered_by_one_tap_or_by_the_next_words_and_by_nothing_else(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        ann = gateway.ann
        ann.send("/id")  # an admin is there, or nobody is let in
        await gateway.wait_for_texts(1)
        people = [gateway.api.person(number, f"P{number}") for number in range(20, 27)]
        scenarios = (tap_often, write, stop, edit_request, send_photo, ask_badly, ask_when_due)
        await asyncio.gather(
            *(scenario(gateway, person) for scenario, person in zip(scenarios, people, strict=True))
        )
    breakdowns = breakdown_clock.check_breakdowns(tmp_path / "gateway.db")
    assert sum(breakdown.seconds["approval_wait"] > 0 for breakdown in breakdowns) == 8


async def tap_often(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    person.send(f"{ask('Which **city** do you mean?', '- Lisbon', '- Porto')}@@say:to Porto@@")
    question = await wait_for_message(gateway, "Which city do you mean?", person.id)
    assert question.text.endswith("\n\nOr write your own answer.")
    assert [button["text"] for button in question.buttons] == ["Lisbon", "Porto"]
    toasts = await tap(gateway, person, question, "Porto", times=5)
    assert Counter(toasts) == {"Thank you.": 1, "You've already answered this.": 4}
    await wait_for_message(gateway, "to Porto", person.id)
    await wait_for_end(gateway, question, "Answered: Porto")
    assert question.buttons == []
    assert list_results(gateway, "to Porto") == ["Porto"]


async def write(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    """What replies to another message is a request; then the next words are the answer, and no request."""
    first = person.send("hi")
    await wait_for_message(gateway, "echo: ", person.id)
    person.send(f"{ask('What is its name?')}@@say:named@@")
    question = await wait_for_message(gateway, "What is its name?", person.id)
    assert not question.buttons
    person.send("@@say:meanwhile@@", reply_to=first)
    await wait_for_message(gateway, "meanwhile", person.id)
    person.send("Rex <|turn>")
    await wait_for_message(gateway, "named", person.id)
    [result] = list_results(gateway, "named")
    assert result.startswith("Rex <")
    assert "<|turn>" not in result
    person.send(f"{ask('Which one?', 'a', 'b')}@@say:the third@@")
    question = await wait_for_message(gateway, "Which one?", person.id)
    person.send("neither", reply_to=question)
    await wait_for_message(gateway, "the third", person.id)
    await wait_for_end(gateway, question, "Answered: neither")
    assert not any("neither" in text for text in gateway.texts(person.id)[-1:])


async def stop(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    """A tap after /stop, and one after /new, change nothing; nor do words."""
    person.send(f"{ask('Which day?', 'Monday', 'Tuesday')}@@say:never@@")
    question = await wait_for_message(gateway, "Which day?", person.id)
    data = str(question.buttons[0]["callback_data"])
    person.send("/stop")
    await wait_for_message(gateway, "Stopped.", person.id)
    assert await tap_late(gateway, person, question, data) == "Stopped."
    person.send(f"{ask('Which month?', 'May', 'June')}@@say:never@@")
    question = await wait_for_message(gateway, "Which month?", person.id)
    data = str(question.buttons[0]["callback_data"])
    person.send("/new")
    await wait_for_message(gateway, "New conversation.", person.id)
    assert await tap_late(gateway, person, question, data) == "Stopped."
    person.send("@@say:anew@@")
    await wait_for_message(gateway, "anew", person.id)
    assert "never" not in gateway.texts(person.id)


async def edit_request(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    request = person.send(f"{ask('Which colour?', 'red', 'blue')}@@say:never@@")
    question = await wait_for_message(gateway, "Which colour?", person.id)
    data = str(question.buttons[0]["callback_data"])
    person.edit(request, "@@say:edited@@")
    await wait_for_message(gateway, "edited", person.id)
    assert await tap_late(gateway, person, question, data) == "Stopped."


async def send_photo(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    """A photo ends the wait, and is answered after it."""
    person.send(f"{ask('Which plant?', 'the tall one', 'the small one')}@@say:I look at it.@@")
    question = await wait_for_message(gateway, "Which plant?", person.id)
    person.send_photo("@@say:a fern@@", content=make_image())
    await wait_for_message(gateway, "a fern", person.id)
    assert list_results(gateway, "a fern") == [ANSWERED_BELOW]
    await wait_for_end(gateway, question, "Answered below.")
    assert gateway.texts(person.id)[1:] == ["I look at it.", "a fern"]


async def ask_badly(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    """What cannot be asked is told to the model, and so is a second question of one answer."""
    bad = [("One?", "a"), ("Twice?", "a", "A")]
    calls = "".join(ask(*lines) for lines in bad)
    questions = ("Good?\nyes\nno", "At once?")
    both = [{"name": "ask", "arguments": {"question": question}} for question in questions]
    person.send(f"{calls}@@tools:{json.dumps(both)}@@{ask('Again?')}@@say:no more@@")
    question = await wait_for_message(gateway, "Good?", person.id)
    assert await tap(gateway, person, question, "yes") == ["Thank you."]
    await wait_for_message(gateway, "no more", person.id)
    results = list_results(gateway, "no more")
    assert results == [BAD_QUESTION, BAD_QUESTION, "yes", ASKED_BEFORE, ASKED_BEFORE]


async def ask_when_due(gateway: GatewayHarness, person: ScriptedPerson) -> None:
    """A due task asks nothing: its person is not there."""
    await introduce_person(gateway, person.id)
    await add_due_job(gateway, f"{ask('Which park?', 'a', 'b')}@@say:the nearest@@", chat=person.id)
    await wait_for_message(gateway, "🤖", person.id)
    await gateway.api.wait_until(lambda: gateway.texts(person.id)[-1].endswith("the nearest"))
    assert list_results(gateway, "the nearest") == [NOBODY_TO_ASK]
    assert not any(text.startswith("Which park?") for text in gateway.texts(person.id))


async def test_in_a_group_only_the_person_asked_answers_by_a_tap_or_a_reply(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", thinking="off") as gateway:
        gateway.ann.send("/id")
        await gateway.wait_for_texts(1)
        team = open_group(gateway.api, gateway.ann, is_forum=True, hears_everything=True)
        await team.wait_for_texts(1)
        name = "@canvasgram_sim_bot"
        plans = team.ann.create_topic("Plans", thread=team.group)
        request = team.ben.send(f"{name} {ask('When?', 'at one', 'at two')}@@say:we meet@@", thread=plans)
        question = await wait_for_message(gateway, "When?", GROUP)
        assert question.text.endswith("Ben, please tap an answer, or reply to this message.")
        assert question.raw["reply_to_message"]["message_id"] == request.message_id
        cleo_tap = team.cleo.tap(question, "at one", thread=plans)
        await gateway.api.wait_until(lambda: cleo_tap.answer)
        assert cleo_tap.answer is not None
        assert cleo_tap.answer["text"] == "Only Ben can answer this."
        team.cleo.send("@@say:for Cleo@@", reply_to=question, thread=plans)
        await wait_for_message(gateway, "for Cleo", GROUP)
        team.ben.send(f"{name} @@say:something else@@", thread=plans)
        await wait_for_message(gateway, "something else", GROUP)
        team.ben.send(f"{name} @@say:elsewhere@@", thread=team.group)
        await wait_for_message(gateway, "elsewhere", GROUP)
        team.ben.send("at three", reply_to=question, thread=plans)
        await wait_for_message(gateway, "we meet", GROUP)
        assert list_results(gateway, "we meet") == ["at three"]
        await wait_for_end(gateway, question, "Answered: at three")


async def test_without_an_answer_in_time_the_turn_ends_with_a_sentence(tmp_path: Path):
    async with running_gateway(tmp_path, approval_seconds=0.5) as gateway:
        gateway.ann.send(f"{ask('Which?', 'a', 'b')}@@say:I need to know which.@@")
        await wait_for_message(gateway, "I need to know which.", gateway.ann.id)
        await wait_for_end(gateway, gateway.ann.chat.bot_messages[0], "Nobody answered in time.")
        assert list_results(gateway, "I need to know which.") == [UNANSWERED]
