"""kill -9 at every step of a message's way, each brought about on purpose: answered once, in order, nothing
redone.
"""

import asyncio
import json
import signal

import pytest

from bot.bench.harness.workload import write_prose
from bot.sim.telegram.server import BotApiFault
from bot.sim.vllm.server import SimulatedEndpoint, Timing, reply_with
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, SENT_AGAIN, UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE

PROSE = write_prose(150, 1)[1:] + " "  # longer than the patterns a server looks for

pytestmark = pytest.mark.timeout(180)  # starting takes long on a busy machine


async def hold_after_first_block(environment: KillEnvironment) -> None:
    """Wait until a first block stands in the chat, and let the endpoint write no more."""
    await environment.endpoint.wait_until(
        lambda: any(request.canvases for request in environment.endpoint.requests), PATIENCE
    )
    environment.endpoint.hold()
    await environment.wait_for_row("select 1 from outbox where state = 'open'")


async def test_fetched_but_not_yet_read(surround: OpenEnvironment):
    house = await surround(plain=True)
    await house.until(lambda: house.api.updates.is_polled)
    house.gateway.freeze()
    written = house.ann.send("@@say:here I am@@")
    await house.api.wait_until(lambda: house.api.fetched_at(written.update_id))
    await house.gateway.restart()
    await house.wait_for_answers("here I am")
    assert len(house.endpoint.requests) == 1


async def test_stored_but_not_yet_acknowledged(surround: OpenEnvironment):
    house = await surround()
    held = house.api.inject_fault(
        BotApiFault.hang(), "getUpdates", when=lambda call: call.params.integer("offset") > 0
    )
    house.ann.send("@@say:here I am@@")
    await house.wait_for_answers("here I am")
    await house.until(lambda: held.hit_count)
    await house.wait_until_idle()
    assert house.api.updates.pending_ids
    await house.gateway.restart()
    house.ann.send("@@say:and again@@")
    await house.wait_for_answers("here I am", "and again")
    assert house.api.updates.pending_ids == []


async def test_waiting_for_a_seat(surround: OpenEnvironment):
    house = await surround(model_seats=1)
    bob = house.api.person(8, "Bob")
    house.endpoint.hold()
    house.ann.send("@@say:for Ann@@")
    await house.wait_for_requests()
    bob.send("@@say:for Bob@@")
    await house.until(lambda: (draft := house.api.chat(8).draft) is not None and "you are next" in draft.text)
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await house.wait_for_answers("for Ann")
    await house.wait_for_answers("for Bob", chat=8)


async def test_in_mid_canvas_with_messages_waiting(surround: OpenEnvironment):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:first@@")
    await house.wait_for_requests()
    for word in ("second", "third"):
        await wait_for_reaction(house, house.ann.send(f"@@say:{word}@@").message_id)
    await house.gateway.kill()
    house.endpoint.release()
    await house.gateway.start()
    await house.wait_for_answers("first", "third")
    asked = house.load_rows("select text from messages where role = 'user' order by id")
    assert [text.rpartition("] ")[2] for (text,) in asked] == [
        f"@@say:{word}@@" for word in ("first", "second", "third")
    ]
    outcomes = house.load_rows("select outcome, error from model_calls where purpose = 'turn' order by id")
    assert outcomes == [("failed", "the process ended"), ("ok", None), ("ok", None)]


async def test_after_the_first_block_was_shown(surround: OpenEnvironment):
    house = await surround(SimulatedEndpoint(timing=Timing(canvas_seconds=0.3)))
    house.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(house)
    await house.gateway.kill()
    house.endpoint.release()
    shown = house.messages()[0]
    assert shown.buttons
    await house.gateway.start()
    await house.wait_for_answers((PROSE * 4).strip())
    assert house.messages()[0].message_id == shown.message_id


async def test_while_tools_run(surround: OpenEnvironment):
    """One that may be repeated, and one that may not; the third was done already."""
    house = await surround()
    calls = [
        {"name": "ring", "arguments": {"address": f"{house.bells.url}/once"}},
        {"name": "look", "arguments": {"address": f"{house.bells.url}/often"}},
        {"name": "remember", "arguments": {"note": "milk"}},
    ]
    house.bells.hold()
    house.ann.send(f"@@tools:{json.dumps(calls)}@@@@say:all done@@")
    await house.bells.until(lambda: len(house.bells.rung) == 2)
    await house.wait_for_row("select 1 from tool_calls where name = 'remember' and outcome is not null")
    await house.gateway.kill()
    house.bells.release()
    await house.gateway.start()
    await house.wait_for_answers("all done")
    assert house.bells.rung == {"once": 1, "often": 2}
    assert len(house.endpoint.requests) == 2
    outcomes = house.load_rows("select name, outcome from tool_calls order by name")
    assert outcomes == [("look", "ok"), ("remember", "ok"), ("ring", "unknown")]
    assert house.load_rows("select count(*) from notes") == [(1,)]
    assert "outcome is unknown" in house.endpoint.requests[-1].prompt


@pytest.mark.parametrize("arrives", [True, False])
async def test_while_the_answer_is_sent(surround: OpenEnvironment, arrives: bool):
    """Nobody can know what became of it: it is said, and sent again once, if the person wants it."""
    house = await surround()
    sent = house.freeze_at("sendMessage", arrives=arrives)
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: sent.hit_count and (house.texts() or not arrives))
    await house.gateway.restart()
    shown = ["here I am"] if arrives else []
    await house.wait_for_answers(*shown, UNSURE)
    house.ann.tap(house.messages()[-1], "Send again")
    house.ann.tap(house.messages()[-1], "Send again")
    await house.until(lambda: "here I am" in house.texts()[len(shown) :])
    house.ann.send("@@say:done@@")
    await house.wait_for_answers(*shown, SENT_AGAIN, "here I am", "done")
    assert len(house.endpoint.requests) == 2


async def test_while_the_person_is_asked_about_it(surround: OpenEnvironment):
    """The question may be repeated, and it must not get lost: nothing else tells that there was an answer."""
    house = await surround()
    sent = house.freeze_at("sendMessage", arrives=False)
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: sent.hit_count)
    asked = house.freeze_at("sendMessage", UNSURE, arrives=False)
    await house.gateway.kill()
    await house.gateway.start()
    await house.until(lambda: asked.hit_count)
    await house.gateway.restart()
    await house.wait_for_answers(UNSURE)


async def test_while_it_is_sent_again(surround: OpenEnvironment):
    house = await surround()
    sent = house.freeze_at("sendMessage", arrives=False)
    house.ann.send("@@say:here I am@@")
    await house.until(lambda: sent.hit_count)
    await house.gateway.restart()
    await house.wait_for_answers(UNSURE)
    again = house.freeze_at("sendMessage", "here I am", arrives=False)
    house.ann.tap(house.messages()[-1], "Send again")
    await house.until(lambda: again.hit_count)
    await house.gateway.restart()
    await house.wait_for_answers(SENT_AGAIN, UNSURE)
    house.ann.tap(house.messages()[-1], "Send again")
    await house.until(lambda: house.texts()[2:])
    await house.wait_for_answers(SENT_AGAIN, SENT_AGAIN, "here I am")


@pytest.mark.parametrize("arrives", [True, False])
async def test_between_the_parts_of_an_answer(surround: OpenEnvironment, arrives: bool):
    house = await surround(model_max_tokens=4096)
    words = [f"word{number}" for number in range(800)]
    second = house.freeze_at("sendMessage", "word799", arrives=arrives)
    house.endpoint.brain = reply_with(" ".join(words))
    house.ann.send("Count to 800.")
    await house.until(lambda: second.hit_count and len(house.texts()) == 1 + arrives)
    await house.gateway.restart()
    await house.until(lambda: house.doubtful_messages())
    await house.wait_until_idle()
    house.assert_all_accounted()
    first, *rest = house.texts()
    assert len(rest) == 1 + arrives
    if not arrives:
        house.ann.tap(house.messages()[-1], "Send again")
        await house.until(lambda: len(house.texts()) == 3)
        rest = [house.texts()[-1]]
    assert f"{first} {rest[0]}".split() == words


@pytest.mark.parametrize("arrives", [True, False])
async def test_while_an_edit_is_in_flight(surround: OpenEnvironment, arrives: bool):
    house = await surround(SimulatedEndpoint(timing=Timing(canvas_seconds=0.3)))
    edit = house.freeze_at("editMessageText", arrives=arrives)
    house.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(house)
    house.endpoint.release()
    await house.until(lambda: edit.hit_count)
    await house.gateway.restart()
    await house.wait_for_answers((PROSE * 4).strip())
    assert len(house.messages()) == 1


async def test_a_stop_meant_for_what_runs_stops_it_after_a_restart(surround: OpenEnvironment):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:unwanted@@")
    await house.wait_for_requests()
    house.gateway.freeze()
    stop = house.ann.send("/stop")
    await house.api.wait_until(lambda: house.api.fetched_at(stop.update_id))
    await house.gateway.restart()
    await house.wait_for_answers("Stopped.")
    house.endpoint.release()
    house.ann.send("@@say:next@@")
    await house.wait_for_answers("Stopped.", "next")


@pytest.mark.parametrize("when", ["after 1", "after 2", "before 3", "after 3", "before 4"])
async def test_while_a_stop_is_handled(surround: OpenEnvironment, when: str):
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:unwanted@@")
    await house.wait_for_requests()
    await house.gateway.arm(when)
    house.ann.send("/stop")
    assert await house.gateway.wait_for_exit() == -signal.SIGKILL
    await house.gateway.start()
    await house.wait_for_answers("Stopped.")
    assert house.load_rows("select ending from turns") == [("stopped",)]
    house.endpoint.release()
    house.ann.send("@@say:next@@")
    await house.wait_for_answers("Stopped.", "next")


async def wait_for_reaction(environment: KillEnvironment, message_id: int) -> None:
    """Wait until the person sees that a message waits."""

    def seen() -> bool:
        message = environment.api.chat(ANN).find_message(message_id)
        return message is not None and bool(message.reactions)

    await environment.until(seen)


@pytest.mark.parametrize("when", ["after 1", "before 2", "after 2", "before 3", "before 4"])
async def test_while_a_new_conversation_is_asked_for(surround: OpenEnvironment, when: str):
    """A /new ends what runs, also when it finds it running again after a restart."""
    house = await surround()
    house.endpoint.hold()
    house.ann.send("@@say:unwanted@@")
    await house.wait_for_requests()
    await house.gateway.arm(when)
    house.ann.send("/new")
    assert await house.gateway.wait_for_exit() == -signal.SIGKILL
    await house.gateway.start()
    await house.until(lambda: len(house.texts()) == 2)
    assert house.texts()[0] == "Stopped."
    assert house.texts()[1].startswith("A new conversation")
    house.endpoint.release()


async def test_the_stop_button_of_an_answer_shown_before_the_crash_still_works(surround: OpenEnvironment):
    house = await surround(SimulatedEndpoint(timing=Timing(canvas_seconds=0.3)))
    house.ann.send(f"@@repeat:4 {PROSE}@@")
    await hold_after_first_block(house)
    await house.gateway.kill()
    house.ann.tap(house.messages()[0], "⏹ Stop")
    await house.gateway.start()
    await house.until(lambda: house.texts()[0].endswith("Stopped."))
    await house.wait_until_idle()
    house.assert_all_accounted()
    assert len(house.texts()) == 1
    assert not house.messages()[0].buttons
    house.endpoint.release()


async def test_while_it_starts_for_the_first_time(surround: OpenEnvironment):
    """Also in the middle of making its tables."""
    house = await surround(start=False)
    house.ann.send("@@say:here I am@@")
    for moment in range(20):
        await house.gateway.spawn()
        await asyncio.sleep(moment * 0.02)
        await house.gateway.kill()
    await house.gateway.start()
    await house.until(house.texts)
    await house.wait_until_idle()
    assert house.texts() in (["here I am"], [UNSURE], ["here I am", UNSURE])
    house.assert_all_accounted()
