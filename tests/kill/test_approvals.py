"""Killed around every commit between a question, its answer and the call it lets run: the call runs once at
most, and only as it was shown; the books of the turn are whole.
"""

import signal
from functools import partial

import pytest

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied
from tests.support.breakdown_clock import check_breakdowns

pytestmark = pytest.mark.timeout(180)


async def test_around_every_commit_of_a_call_that_asks(surround: OpenEnvironment):
    house = await surround()
    commit = 1
    while await is_killed_on_the_way(house, f"{('after', 'before')[commit % 2]} {commit}", commit):
        await house.gateway.start()
        await answer_until_done(house, commit)
        assert_ran_once(house, commit)
        commit += 1
    assert commit > 12
    await house.gateway.restart()  # it is armed still
    await house.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    house.assert_all_accounted()
    found = check_breakdowns(house.folder / "house.db")
    assert len(found) == commit
    assert all(book.seconds["approval_wait"] > 0 for book in found)


async def is_killed_on_the_way(environment: KillEnvironment, when: str, chat: int) -> bool:
    """Whether the gateway killed itself on the way of a message whose call is allowed at once."""
    await environment.gateway.arm(when)
    environment.api.person(chat).send(
        f"{environment.bells.call('toll', f'bell-{chat}')}@@say:tolled {chat}@@"
    )
    try:
        asked = await environment.until(lambda: find_question(environment, chat))
        assert asked is not None
        environment.api.person(chat).tap(asked, "Allow once")
        await environment.until(lambda: is_answered(environment, chat))
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    assert_ran_once(environment, chat)
    return False


async def answer_until_done(environment: KillEnvironment, chat: int) -> None:
    """Answer the question if it still stands, as often as it does, until the turn has ended."""
    while not is_answered(environment, chat):
        await environment.until(lambda: is_answered(environment, chat) or find_question(environment, chat))
        asked = find_question(environment, chat)
        if asked is not None:
            environment.api.person(chat).tap(asked, "Allow once")
            await environment.until(partial(is_answer_taken, environment, asked, chat))
    await environment.wait_until_idle()


def find_question(environment: KillEnvironment, chat: int) -> ChatMessage | None:
    return next(
        (one for one in environment.messages(chat) if f"bell-{chat}" in one.text and one.buttons), None
    )


def is_answer_taken(environment: KillEnvironment, question: ChatMessage, chat: int) -> bool:
    return is_answered(environment, chat) or not question.buttons


def is_answered(environment: KillEnvironment, chat: int) -> bool:
    """Whether the turn's answer is there, or nobody knows if it is."""
    return f"tolled {chat}" in environment.texts(chat) or bool(environment.doubtful_messages(chat))


def assert_ran_once(environment: KillEnvironment, chat: int) -> None:
    """It was tolled, or its outcome is said to be unknown; and it was this bell, for it was asked about this
    one.
    """
    query = (
        "select c.outcome, a.answer, a.arguments = '{\"address\": \"' || '%s' || '\"}' from tool_calls c"
        " join turns t on t.id = c.turn join approvals a on a.id = c.approval where t.lane = '%s'"
    )
    [(outcome, answer, is_same)] = environment.load_rows(
        query % (f"{environment.bells.url}/bell-{chat}", chat)
    )
    rung = environment.bells.rung[f"bell-{chat}"]
    assert (answer, is_same) == ("once", 1)
    assert rung <= 1
    assert (rung, outcome) == (1, "ok") or outcome == "unknown"


async def test_an_answer_hours_later_after_a_restart_runs_what_was_shown(surround: OpenEnvironment):
    house = await surround()
    house.ann.send(f"{house.bells.call('toll', 'late')}@@say:at last@@")
    asked = await house.until(lambda: next((one for one in house.messages() if one.buttons), None))
    assert asked is not None
    await house.gateway.kill()
    house.ann.send("@@say:meanwhile@@")
    await house.gateway.start()
    await house.until(lambda: "meanwhile" in house.texts())
    house.ann.tap(asked, "Allow once")
    await house.until(lambda: "at last" in house.texts())
    assert house.bells.rung["late"] == 1
    await house.wait_until_idle()
    await house.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    waited, meanwhile = check_breakdowns(house.folder / "house.db")
    assert waited.seconds["down"] > 0
    assert waited.seconds["approval_wait"] > 0
    assert meanwhile.seconds["approval_wait"] == 0
