"""Killed around every commit between a question, its answer and the call it lets run: the call runs once at
most, and only as it was shown; the books of the turn are whole.
"""

import signal
from functools import partial

import pytest

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings
from tests.kill.gateway import Died
from tests.support.breakdown_clock import check

pytestmark = pytest.mark.timeout(180)


async def test_around_every_commit_of_a_call_that_asks(surround: Surround):
    house = await surround()
    commit = 1
    while await dies(house, f"{('after', 'before')[commit % 2]} {commit}", commit):
        await house.gateway.start()
        await goes_on(house, commit)
        ran_once(house, commit)
        commit += 1
    assert commit > 12
    await house.gateway.restart()  # it is armed still
    await house.stored("select 1 where not exists (select 1 from inbox where spans is not null)")
    house.accounted()
    found = check(house.folder / "house.db")
    assert len(found) == commit
    assert all(book.seconds["approval_wait"] > 0 for book in found)


async def dies(house: Surroundings, when: str, chat: int) -> bool:
    """Whether the gateway killed itself on the way of a message whose call is allowed at once."""
    await house.gateway.arm(when)
    house.api.person(chat).send(f"{house.bells.call('toll', f'bell-{chat}')}@@say:tolled {chat}@@")
    try:
        asked = await house.until(lambda: question(house, chat))
        assert asked is not None
        house.api.person(chat).tap(asked, "Allow once")
        await house.until(lambda: told(house, chat))
        await house.gateway.while_alive(house.at_rest())
    except Died:
        assert await house.gateway.ended() == -signal.SIGKILL
        return True
    ran_once(house, chat)
    return False


async def goes_on(house: Surroundings, chat: int) -> None:
    """Answer the question if it still stands, as often as it does, until the turn has ended."""
    while not told(house, chat):
        await house.until(lambda: told(house, chat) or question(house, chat))
        asked = question(house, chat)
        if asked is not None:
            house.api.person(chat).tap(asked, "Allow once")
            await house.until(partial(is_heard, house, asked, chat))
    await house.at_rest()


def question(house: Surroundings, chat: int) -> ChatMessage | None:
    return next((one for one in house.messages(chat) if f"bell-{chat}" in one.text and one.buttons), None)


def is_heard(house: Surroundings, asked: ChatMessage, chat: int) -> bool:
    return told(house, chat) or not asked.buttons


def told(house: Surroundings, chat: int) -> bool:
    """Whether the turn's answer is there, or nobody knows if it is."""
    return f"tolled {chat}" in house.texts(chat) or bool(house.unsure(chat))


def ran_once(house: Surroundings, chat: int) -> None:
    """It was tolled, or its outcome is said to be unknown; and it was this bell, for it was asked about this
    one.
    """
    query = (
        "select c.outcome, a.answer, a.arguments = '{\"address\": \"' || '%s' || '\"}' from tool_calls c"
        " join turns t on t.id = c.turn join approvals a on a.id = c.approval where t.lane = '%s'"
    )
    [(outcome, answer, is_same)] = house.rows(query % (f"{house.bells.url}/bell-{chat}", chat))
    rung = house.bells.rung[f"bell-{chat}"]
    assert (answer, is_same) == ("once", 1)
    assert rung <= 1
    assert (rung, outcome) == (1, "ok") or outcome == "unknown"


async def test_an_answer_hours_later_after_a_restart_runs_what_was_shown(surround: Surround):
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
    await house.at_rest()
    await house.stored("select 1 where not exists (select 1 from inbox where spans is not null)")
    waited, meanwhile = check(house.folder / "house.db")
    assert waited.seconds["down"] > 0
    assert waited.seconds["approval_wait"] > 0
    assert meanwhile.seconds["approval_wait"] == 0
