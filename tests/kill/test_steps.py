"""kill -9 at every step of a message, each arranged on purpose: answered once, in order, nothing redone."""

import asyncio
import json
import signal
from collections.abc import Callable
from functools import partial

import pytest

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import ChatRequest, Timing, format_tool_call
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, IS_IDLE, SENT_AGAIN, UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tests.support.telegram.server import BotApiFault

PROSE = write_prose(150, 1)[1:] + " "  # longer than the repeated patterns a server searches for


async def hold_after_first_block(environment: KillEnvironment) -> None:
    """Wait until a first block is shown in the chat, and hold the endpoint there."""
    await environment.endpoint.wait_until(
        lambda: any(request.canvases for request in environment.endpoint.requests), PATIENCE
    )
    environment.endpoint.hold()
    await environment.wait_for_row("select 1 from outbox where state = 'open'")


async def test_fetched_but_not_yet_read(surround: OpenEnvironment):
    environment = await surround()
    await environment.until(lambda: environment.api.updates.is_polled)
    environment.gateway.freeze()
    update = environment.ann.send("@@say:here I am@@")
    await environment.api.wait_until(lambda: environment.api.fetched_at(update.update_id))
    await environment.gateway.restart()
    await environment.wait_for_answers("here I am")
    assert len(environment.endpoint.requests) == 1


async def test_stored_but_not_yet_acknowledged(surround: OpenEnvironment):
    environment = await surround()
    held_call = environment.api.inject_fault(
        BotApiFault.hang(), "getUpdates", when=lambda call: call.params.integer("offset") > 0
    )
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: held_call.hit_count and environment.texts())
    await environment.wait_for_row(IS_IDLE)
    assert environment.texts() == ["here I am"]
    assert environment.api.updates.pending_ids
    await environment.gateway.restart()
    environment.ann.send("@@say:and again@@")
    await environment.wait_for_answers("here I am", "and again")
    assert environment.api.updates.pending_ids == []


async def test_a_waiting_message_is_edited_while_the_gateway_is_down(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:first@@")
    await environment.wait_for_requests()
    await environment.until(lambda: environment.api.updates.is_polled)
    held_call = environment.api.inject_fault(BotApiFault.hang(), "getUpdates")
    waiting = environment.ann.send("@@say:the capitol@@")
    await environment.until(lambda: held_call.hit_count)  # it is stored, and not acknowledged
    await environment.gateway.kill()
    environment.ann.edit(waiting, "@@say:the capital@@")
    await environment.gateway.start()
    await environment.until(lambda: not environment.api.updates.pending_ids)
    environment.endpoint.release()
    await environment.wait_for_answers("first", "the capital")


def has_text(environment: KillEnvironment, chat: int, text: str) -> bool:
    return text in environment.texts(chat)


async def wait_for_text(environment: KillEnvironment, chat: int, text: str) -> None:
    """Wait until the chat has this message, and all is done."""
    await environment.until(partial(has_text, environment, chat, text))
    await environment.wait_until_idle()


async def test_around_the_commits_of_an_answer_to_an_edited_message(surround: OpenEnvironment):
    environment = await surround()
    for chat, moment in enumerate(("after 1", "before 3", "after 4"), start=21):
        person = environment.api.person(chat)
        message = person.send(f"@@say:typo {chat}@@")
        await wait_for_text(environment, chat, f"typo {chat}")
        await environment.gateway.arm(moment)
        person.edit(message, f"@@say:fixed {chat}@@")
        await environment.revive(partial(wait_for_text, environment, chat, f"fixed {chat}"))
        await environment.wait_for_answers(f"fixed {chat}", chat=chat)
        states = environment.load_rows(f"select state from turns where lane = '{chat}' order by id")
        assert states == [("replaced",), ("ended",)]


async def test_waiting_for_a_seat(surround: OpenEnvironment):
    environment = await surround(model_seats=1)
    bob = environment.api.person(8, "Bob")
    environment.endpoint.hold()
    environment.ann.send("@@say:for Ann@@")
    await environment.wait_for_requests()
    bob.send("@@say:for Bob@@")
    await environment.until(
        lambda: (draft := environment.api.chat(8).draft) is not None and "next in line" in draft.text
    )
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("for Ann")
    await environment.wait_for_answers("for Bob", chat=8)


async def test_in_mid_canvas_with_messages_waiting(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:first@@")
    await environment.wait_for_requests()
    for word in ("second", "third"):
        await wait_for_reaction(environment, environment.ann.send(f"@@say:{word}@@").message_id)
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("first", "third")
    user_texts = environment.load_rows("select text from messages where role = 'user' order by id")
    assert [text.rpartition("] ")[2] for (text,) in user_texts] == [
        f"@@say:{word}@@" for word in ("first", "second", "third")
    ]
    outcomes = environment.load_rows(
        "select outcome, error from model_calls where purpose = 'turn' order by id"
    )
    assert outcomes == [("cancelled", "the process ended"), ("ok", None), ("ok", None)]


async def test_after_the_first_block_was_shown(surround: OpenEnvironment):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.3)))
    environment.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(environment)
    await environment.gateway.kill()
    environment.endpoint.release()
    shown_message = environment.messages()[0]
    assert shown_message.buttons
    await environment.gateway.start()
    await environment.wait_for_answers((PROSE * 4).strip())
    assert environment.messages()[0].message_id == shown_message.message_id


async def test_while_a_call_that_was_cut_is_asked_again(surround: OpenEnvironment):
    calls: list[str] = []
    timing = Timing(canvas_seconds=0.1)
    environment = await surround(ScriptedEndpoint(timing=timing, brain=ring_once(calls)))
    page = write_prose(1200, 1).strip().replace(" ", "+")
    calls.append(format_tool_call("ring", {"address": f"{environment.bells.url}/page?{page}"}))
    environment.ann.send("Write it down.")
    await environment.endpoint.wait_until(lambda: len(environment.endpoint.requests) == 2, PATIENCE)
    environment.endpoint.hold()
    await environment.gateway.kill()
    assert environment.bells.rung == {}
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.wait_for_answers("It is written.")
    assert environment.bells.rung == {"page": 1}
    query = "select step, again, outcome, finish_reason from model_calls where purpose = 'turn' order by id"
    assert environment.load_rows(query) == [
        (1, None, "ok", "length"),
        (2, "cut", "cancelled", None),
        (2, "restart", "ok", "tool_calls"),
        (3, None, "ok", "stop"),
    ]


def ring_once(calls: list[str]) -> Callable[[ChatRequest], str]:
    """A model that makes the first of these calls in its first step, and then says so."""
    return lambda request: "It is written." if request.step else calls[0]


async def test_while_tools_run(surround: OpenEnvironment):
    """One tool may be repeated, and one may not; the third had ended."""
    environment = await surround()
    calls = [
        {"name": "ring", "arguments": {"address": f"{environment.bells.url}/once"}},
        {"name": "look", "arguments": {"address": f"{environment.bells.url}/often"}},
        {"name": "remember", "arguments": {"note": "milk"}},
    ]
    environment.bells.hold()
    environment.ann.send(f"@@tools:{json.dumps(calls)}@@@@say:all done@@")
    await environment.bells.until(lambda: len(environment.bells.rung) == 2)
    await environment.wait_for_row("select 1 from tool_calls where name = 'remember' and outcome is not null")
    await environment.gateway.kill()
    environment.bells.release()
    await environment.gateway.start()
    await environment.wait_for_answers("all done")
    assert environment.bells.rung == {"once": 1, "often": 2}
    assert len(environment.endpoint.requests) == 2
    outcomes = environment.load_rows("select name, outcome from tool_calls order by name")
    assert outcomes == [("look", "ok"), ("remember", "ok"), ("ring", "unknown")]
    assert environment.load_rows("select count(*) from notes") == [(1,)]
    assert "outcome is unknown" in environment.endpoint.requests[-1].prompt


@pytest.mark.parametrize("when", ["before 1", "after 1"])
async def test_around_the_commit_of_an_answer(surround: OpenEnvironment, when: str):
    """From its commit on an answer counts as being sent, whether or not the call has left."""
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:here I am@@")
    await environment.wait_for_requests()
    await environment.gateway.arm(when)  # a heartbeat may be the next commit
    environment.endpoint.release()
    assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
    is_taken = environment.load_rows("select state from outbox where final") == [("sending",)]
    await environment.gateway.start()
    await environment.wait_for_answers(UNSURE if is_taken else "here I am")
    assert when == "after 1" or not is_taken


@pytest.mark.parametrize("arrives", [True, False])
async def test_while_the_answer_is_sent(surround: OpenEnvironment, arrives: bool):
    """Its delivery is in doubt: the chat is asked, and the answer is sent once more if the user wants it."""
    environment = await surround()
    sent = environment.freeze_at("sendMessage", arrives=arrives)
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: sent.hit_count and (environment.texts() or not arrives))
    await environment.gateway.restart()
    delivered = ["here I am"] if arrives else []
    await environment.wait_for_answers(*delivered, UNSURE)
    environment.ann.tap(environment.messages()[-1], "Send again")
    environment.ann.tap(environment.messages()[-1], "Send again")
    await environment.until(lambda: "here I am" in environment.texts()[len(delivered) :])
    environment.ann.send("@@say:done@@")
    await environment.wait_for_answers(*delivered, SENT_AGAIN, "here I am", "done")
    assert len(environment.endpoint.requests) == 2


async def test_while_the_user_is_asked_about_it(surround: OpenEnvironment):
    """The question may be repeated, and must not get lost: nothing else says that there was an answer."""
    environment = await surround()
    sent = environment.freeze_at("sendMessage", arrives=False)
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: sent.hit_count)
    question = environment.freeze_at("sendMessage", UNSURE, arrives=False)
    await environment.gateway.kill()
    await environment.gateway.spawn()  # perhaps it is frozen before it asks for updates
    await environment.until(lambda: question.hit_count)
    await environment.gateway.restart()
    await environment.wait_for_answers(UNSURE)


async def test_while_it_is_sent_again(surround: OpenEnvironment):
    environment = await surround()
    sent = environment.freeze_at("sendMessage", arrives=False)
    environment.ann.send("@@say:here I am@@")
    await environment.until(lambda: sent.hit_count)
    await environment.gateway.restart()
    await environment.wait_for_answers(UNSURE)
    second_send = environment.freeze_at("sendMessage", "here I am", arrives=False)
    environment.ann.tap(environment.messages()[-1], "Send again")
    await environment.until(lambda: second_send.hit_count)
    await environment.gateway.restart()
    await environment.wait_for_answers(SENT_AGAIN, UNSURE)
    environment.ann.tap(environment.messages()[-1], "Send again")
    await environment.until(lambda: environment.texts()[2:])
    await environment.wait_for_answers(SENT_AGAIN, SENT_AGAIN, "here I am")


@pytest.mark.parametrize("arrives", [True, False])
async def test_between_the_parts_of_an_answer(surround: OpenEnvironment, arrives: bool):
    environment = await surround(model_max_tokens=4096)
    words = [f"word{number}" for number in range(800)]
    second = environment.freeze_at("sendMessage", "word799", arrives=arrives)
    environment.endpoint.brain = reply_with(" ".join(words))
    environment.ann.send("Count to 800.")
    await environment.until(lambda: second.hit_count and len(environment.texts()) == 1 + arrives)
    await environment.gateway.restart()
    await environment.until(lambda: environment.doubtful_messages())
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    first, *rest = environment.texts()
    assert len(rest) == 1 + arrives
    if not arrives:
        environment.ann.tap(environment.messages()[-1], "Send again")
        await environment.until(lambda: len(environment.texts()) == 3)
        rest = [environment.texts()[-1]]
    assert f"{first} {rest[0]}".split() == words


@pytest.mark.parametrize("arrives", [True, False])
async def test_while_an_edit_is_in_flight(surround: OpenEnvironment, arrives: bool):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.3)))
    edit = environment.freeze_at("editMessageText", arrives=arrives)
    environment.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(environment)
    environment.endpoint.release()
    await environment.until(lambda: edit.hit_count)
    await environment.gateway.restart()
    await environment.wait_for_answers((PROSE * 4).strip())
    assert len(environment.messages()) == 1


async def test_a_stop_meant_for_what_runs_stops_it_after_a_restart(surround: OpenEnvironment):
    environment = await surround()
    environment.endpoint.hold()
    environment.ann.send("@@say:unwanted@@")
    await environment.wait_for_requests()
    environment.gateway.freeze()
    stop = environment.ann.send("/stop")
    await environment.api.wait_until(lambda: environment.api.fetched_at(stop.update_id))
    await environment.gateway.restart()
    await environment.wait_for_answers("Stopped.")
    environment.endpoint.release()
    environment.ann.send("@@say:next@@")
    await environment.wait_for_answers("Stopped.", "next")


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_while_what_ends_a_turn_is_handled(surround: OpenEnvironment, command: str):
    """Also when it finds it running again after a restart."""
    environment = await surround()
    for chat, moment in enumerate(("after 1", "after 2", "before 4"), start=21):
        person = environment.api.person(chat)
        environment.endpoint.hold()
        person.send("@@say:unwanted@@")
        await environment.wait_for_requests()
        await environment.gateway.arm(moment)
        person.send(command)
        await environment.revive(partial(wait_for_end, environment, chat, command))
        assert "unwanted" not in environment.texts(chat)
        assert environment.load_rows(f"select ending from turns where lane = '{chat}'") == [("stopped",)]
        environment.endpoint.release()
        person.send("@@say:next@@")
        await wait_for_text(environment, chat, "next")
        assert environment.texts(chat)[-1] == "next"
    environment.assert_all_accounted()


async def wait_for_end(environment: KillEnvironment, chat: int, command: str) -> None:
    """Wait until the command is answered, or that is in doubt."""
    answer = "Stopped." if command == "/stop" else "New conversation."
    await environment.until(
        lambda: (
            environment.doubtful_messages(chat)
            or any(text.startswith(answer) for text in environment.texts(chat))
        )
    )
    await environment.wait_until_idle()


async def wait_for_reaction(environment: KillEnvironment, message_id: int) -> None:
    """Wait until the user sees by a reaction that a message waits."""

    def has_reaction() -> bool:
        message = environment.api.chat(ANN).find_message(message_id)
        return message is not None and bool(message.reactions)

    await environment.until(has_reaction)


async def test_the_stop_button_of_an_answer_shown_before_the_crash_still_works(surround: OpenEnvironment):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.3)))
    environment.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(environment)
    await environment.gateway.kill()
    environment.ann.tap(environment.messages()[0], "⏹ Stop")
    await environment.gateway.start()
    await environment.until(lambda: environment.texts()[0].endswith("Stopped."))
    await environment.wait_until_idle()
    environment.assert_all_accounted()
    assert len(environment.texts()) == 1
    assert not environment.messages()[0].buttons
    environment.endpoint.release()


async def test_while_it_starts(surround: OpenEnvironment):
    environment = await surround(start=False)
    environment.ann.send("@@say:here I am@@")
    for attempt in range(1, 6):  # a message that was being handled more than ten times is given up
        await environment.gateway.spawn()
        await asyncio.sleep(attempt * 0.06)  # which moment of a start that is depends on the machine
        await environment.gateway.kill()
    await environment.gateway.start()
    await environment.until(environment.texts)
    await environment.wait_until_idle()
    answers = [text for text in environment.texts() if text != UNSURE]  # the question may be repeated
    assert answers == ["here I am"] or (not answers and environment.doubtful_messages())
    environment.assert_all_accounted()
