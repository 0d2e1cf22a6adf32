"""Killed just before and just after every commit of a message's way, one after the other: that is every step
it has.
"""

import json
import signal

import pytest

from bot.bench.harness.workload import prose
from bot.sim.vllm.server import Endpoint, Timing
from tests.kill.conftest import Surround
from tests.kill.environment import SENT_AGAIN, UNSURE, Surroundings
from tests.kill.gateway import Died

PROSE = prose(150, 1)[1:] + " "  # longer than the patterns a server looks for
ANSWER = (PROSE * 3).strip()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_around_every_commit(surround: Surround, when: str):
    house = await surround(Endpoint(timing=Timing(canvas_seconds=0.05)))
    commit = 1
    while await dies(house, f"{when} {commit}", commit):
        await house.gateway.start()
        await answered_once(house, commit)
        tools_ran_once(house, commit)
        house.accounted()
        commit += 1
    assert commit > 12


async def dies(house: Surroundings, when: str, chat: int) -> bool:
    """Whether the gateway killed itself on the way of a message that uses three tools and is shown block by
    block.
    """
    await house.gateway.arm(when)
    calls = [
        {"name": "ring", "arguments": {"address": f"{house.bells.url}/ring-{chat}"}},
        {"name": "look", "arguments": {"address": f"{house.bells.url}/look-{chat}"}},
        {"name": "remember", "arguments": {"note": f"note {chat}"}},
    ]
    house.api.person(chat).send(f"@@tools:{json.dumps(calls)}@@@@repeat:3 {PROSE}@@")
    try:
        await house.until(lambda: ANSWER in house.texts(chat))
        await house.gateway.while_alive(house.at_rest())
    except Died:
        assert await house.gateway.ended() == -signal.SIGKILL
        return True
    return False


async def answered_once(house: Surroundings, chat: int) -> None:
    """The answer is there; or it is said that nobody knows, and it comes when the person wants it."""
    await house.until(lambda: ANSWER in house.texts(chat) or house.unsure(chat))
    await house.at_rest()
    doubts = house.unsure(chat)
    if doubts:
        assert house.texts(chat).count(ANSWER) <= 1
        seen = len(house.texts(chat))
        house.api.person(chat).tap(doubts[0], "Send again")
        await house.until(lambda: len(house.texts(chat)) > seen)
        await house.at_rest()
        assert house.texts(chat)[-2:] == [SENT_AGAIN, ANSWER]
    else:
        assert house.texts(chat) == [ANSWER]
    assert len(doubts) <= 1
    assert UNSURE not in house.texts(chat)


def tools_ran_once(house: Surroundings, chat: int) -> None:
    """What may not be repeated was not, and is said to be unknown if it began and its end was not seen."""
    rows = "select name, outcome from tool_calls join turns on turns.id = tool_calls.turn where lane = '{}'"
    outcomes = dict(house.rows(rows.format(chat)))
    assert set(outcomes) == {"ring", "look", "remember"}
    assert outcomes["look"] == "ok"
    assert house.bells.rung[f"look-{chat}"] in {1, 2}
    times = {
        "ring": house.bells.rung[f"ring-{chat}"],
        "remember": len(house.rows(f"select 1 from notes where lane = '{chat}'")),
    }
    for tool, count in times.items():
        assert count == 1 or (count, outcomes[tool]) == (0, "unknown")
