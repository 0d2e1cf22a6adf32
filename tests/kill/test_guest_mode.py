"""kill -9 while a question from a chat of others is answered: once, or its person reads to ask again."""

import signal

import pytest

from bot.sim.telegram.server import BotApiCall
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import ANN, KillEnvironment
from tests.support.telegram.server import BotApiFault
from tests.support.telegram.world import GuestQuery

ELSEWHERE = -1002000000001
LOST = "I couldn't answer you in “Elsewhere”. Please ask me there again."


def summon(environment: KillEnvironment, text: str) -> GuestQuery:
    """Ask in a chat that the bot is no member of."""
    environment.api.change_bot(supports_guest_queries=True)
    group = environment.api.add_foreign_group(ELSEWHERE, "Elsewhere", owner=environment.ann)
    environment.ann.chat.is_known = True  # they have written to the bot before
    return environment.ann.summon(f"@canvasgram_sim_bot {text}", thread=group)


def freeze_at_answer(environment: KillEnvironment, *, arrives: bool) -> None:
    """Freeze the gateway at its call that answers the query."""

    def freeze(_: BotApiCall) -> bool:
        environment.gateway.freeze()
        return True

    fault = BotApiFault() if arrives else BotApiFault.drop()
    environment.api.inject_fault(fault, "answerGuestQuery", when=freeze)


async def wait_for_answer(environment: KillEnvironment, query: GuestQuery, text: str) -> None:
    await environment.until(lambda: query.answer is not None and query.answer.text == text)
    await environment.wait_until_idle()
    environment.assert_all_accounted()


async def test_before_the_first_text(surround: OpenEnvironment):
    environment = await surround(guest_mode="on")
    await environment.until(lambda: environment.api.updates.is_polled)
    environment.gateway.freeze()
    query = summon(environment, "@@say:here I am@@")
    await environment.api.wait_until(lambda: environment.api.fetched_at(query.update_id))
    await environment.gateway.restart()
    await wait_for_answer(environment, query, "here I am")
    assert environment.texts() == []


@pytest.mark.parametrize("when", ["after 1", "before 2"])
async def test_between_storing_the_question_and_the_first_text(surround: OpenEnvironment, when: str):
    environment = await surround(guest_mode="on")
    await environment.gateway.arm(when)
    query = summon(environment, "@@say:here I am@@")
    assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
    assert query.answer is None
    await environment.gateway.start()
    await wait_for_answer(environment, query, "here I am")
    assert environment.texts() == []


@pytest.mark.parametrize("arrives", [True, False])
async def test_while_the_first_text_is_sent(surround: OpenEnvironment, arrives: bool):
    environment = await surround(guest_mode="on")
    freeze_at_answer(environment, arrives=arrives)
    query = summon(environment, "@@say:here I am@@")
    await environment.wait_for_row("select 1 from inbox where body like '%is_being_answered%'")
    await environment.api.wait_until(lambda: environment.api.calls_of("answerGuestQuery"))
    await environment.gateway.restart()
    await environment.wait_for_answers(LOST)
    assert (query.answer is not None) == arrives
    assert len(environment.endpoint.requests) == 0


async def test_after_the_first_text_and_in_the_middle_of_the_turn(surround: OpenEnvironment):
    environment = await surround(guest_mode="on")
    environment.endpoint.hold()
    query = summon(environment, "@@say:here I am@@")
    await environment.wait_for_requests()
    await environment.until(lambda: query.answer is not None and query.answer.text == "…")
    await environment.gateway.restart()
    environment.endpoint.release()
    await wait_for_answer(environment, query, "here I am")
    assert environment.load_rows(f"select lane from turns where person = {ANN}") == [(f"{ANN}:{ELSEWHERE}",)]
