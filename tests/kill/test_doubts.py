"""What a person sees of doubtful sends: reminders shown twice, later answers above, messages half shown.

A message whose first send has no known outcome cannot be looked up, edited or deleted: the Bot API finds no
message by its text, and its id is what got lost; a guessed id may be another message. So each of these comes
with a question, and a second copy only after a tap on its button.
"""

import pytest

from bot.sim.vllm.server import Timing
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import SENT_AGAIN, UNSURE, KillEnvironment
from tests.kill.gateway import PATIENCE
from tests.kill.test_jobs import add_due_job, greet, wait_until_recorded
from tests.kill.test_steps import PROSE
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tests.support.telegram.server import BotApiFault

CHAT = 100
REMINDER = "⏰ tea"


async def tap_send_again(environment: KillEnvironment, chat: int) -> None:
    """Tap [Send again] twice, and wait until the chat has the copy."""
    count = len(environment.texts(chat))
    question = environment.doubtful_messages(chat)[-1]
    for _ in range(2):
        environment.api.person(chat).tap(question, "Send again")
    await environment.until(lambda: len(environment.texts(chat)) > count)
    await environment.wait_until_idle()


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_reminder_due_while_the_process_was_down_comes_twice_only_on_request(
    surround: OpenEnvironment, arrives: bool
):
    environment = await surround()
    await greet(environment, CHAT)
    await environment.gateway.kill()
    job, _ = add_due_job(environment, CHAT, "reminder", "tea")
    reminder = environment.freeze_at("sendMessage", REMINDER, arrives=arrives, chat=CHAT)
    await environment.gateway.spawn()
    await environment.until(lambda: reminder.hit_count)
    await environment.gateway.restart()
    await wait_until_recorded(environment, job)
    shown = [REMINDER] if arrives else []
    assert environment.texts(CHAT) == ["Hello.", *shown, UNSURE]
    await tap_send_again(environment, CHAT)
    assert environment.texts(CHAT) == ["Hello.", *shown, SENT_AGAIN, REMINDER]


async def test_a_reminder_whose_question_is_lost_too_is_asked_about_after_a_restart(
    surround: OpenEnvironment,
):
    environment = await surround()
    await greet(environment, CHAT)
    outage = environment.api.inject_fault(BotApiFault.drop(), "sendMessage", chat_id=CHAT, times=None)
    add_due_job(environment, CHAT, "reminder", "tea")
    await environment.until(lambda: outage.hit_count >= 2)
    await environment.gateway.kill()
    outage.lift()
    await environment.gateway.start()
    await environment.wait_for_answers("Hello.", UNSURE, chat=CHAT)


async def test_an_answer_sent_again_stands_below_later_ones(surround: OpenEnvironment):
    """Telegram can insert nothing above; the question stands where the answer is missing, and says so."""
    environment = await surround()
    lost = environment.freeze_at("sendMessage", "first", arrives=False)
    environment.ann.send("@@say:first@@")
    await environment.until(lambda: lost.hit_count)
    environment.ann.send("@@say:second@@")
    await environment.gateway.restart()
    await environment.wait_for_answers(UNSURE, "second")
    await tap_send_again(environment, environment.ann.id)
    assert environment.texts() == [SENT_AGAIN, "second", "first"]


async def test_an_older_part_sent_again_stands_below_the_later_ones(surround: OpenEnvironment):
    environment = await surround(model_max_tokens=4096)
    words = [f"word{number}" for number in range(800)]
    environment.endpoint.brain = reply_with(" ".join(words))
    first_part = environment.freeze_at("sendMessage", "word0", arrives=False)
    environment.ann.send("Count to 800.")
    await environment.until(lambda: first_part.hit_count)
    await environment.gateway.restart()
    await environment.until(lambda: len(environment.texts()) == 2)
    await environment.wait_until_idle()
    assert environment.texts()[0] == UNSURE
    await tap_send_again(environment, environment.ann.id)
    note, second, first = environment.texts()
    assert note == SENT_AGAIN
    assert f"{first} {second}".split() == words


async def test_a_half_shown_message_is_left_only_by_a_first_send_that_was_in_doubt(surround: OpenEnvironment):
    """Nobody knows its id, so nobody can finish it: the chat is asked, and the whole answer comes below."""
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.3)))
    first_block = environment.freeze_at("sendMessage", arrives=True)
    environment.ann.send(f"@@repeat:4 {PROSE}@@")
    await environment.endpoint.wait_until(
        lambda: any(request.canvases for request in environment.endpoint.requests), PATIENCE
    )
    environment.endpoint.hold()
    await environment.until(lambda: first_block.hit_count and environment.texts())
    half = environment.texts()[0]
    whole = (PROSE * 4).strip()
    await environment.gateway.kill()
    environment.endpoint.release()
    await environment.gateway.start()
    await environment.until(environment.doubtful_messages)
    await environment.wait_until_idle()
    assert len(half) < len(whole)
    assert environment.texts() == [half, UNSURE]
    await tap_send_again(environment, environment.ann.id)
    assert environment.texts() == [half, SENT_AGAIN, whole]
    environment.assert_all_accounted()


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_confirmation_of_unknown_outcome_is_repeated(surround: OpenEnvironment, arrives: bool):
    """Nobody is asked about it, since it answers no message; and two of it do no harm."""
    environment = await surround(time_zone="UTC")
    confirmation = environment.freeze_at("sendMessage", "I'll do this then", arrives=arrives)
    schedule = '@@tool:schedule {"when": "in 2 hours", "text": "water", "task": true}@@'
    environment.ann.send(f"{schedule}@@say:It is planned.@@")
    await environment.until(lambda: confirmation.hit_count)
    await environment.gateway.restart()
    await environment.until(lambda: len(environment.texts()) == 2 + arrives)
    await environment.wait_until_idle()
    *confirmations, answer = sorted(environment.texts(), key=lambda text: text == "It is planned.")
    assert answer == "It is planned."
    assert [text.splitlines()[0] for text in confirmations] == ["🤖 I'll do this then: water"] * (1 + arrives)
