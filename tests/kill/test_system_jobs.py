"""Killed after every commit of a house job that tells admins something: it is told once an order, never
twice.
"""

import signal
import time

import pytest

from bot.cli import system_jobs as orders
from tests.kill.conftest import Surround
from tests.kill.environment import Surroundings
from tests.kill.gateway import Died

USAGE = "select state from outbox where body like '%Usage, %'"


@pytest.mark.timeout(240)
async def test_after_every_commit_of_a_summary(surround: Surround):
    house = await surround(usage_summary="daily")
    house.ann.send("@@say:Hello@@")  # a bot may not write first
    await house.until(lambda: "Hello" in house.texts())
    await house.stored("select 1 from jobs where name = 'usage'")
    commit = 1
    while await dies(house, f"after {commit}", commit):
        await house.gateway.start()
        await told(house, commit)
        commit += 1
    await told(house, commit)
    assert commit > 3


async def dies(house: Surroundings, when: str, count: int) -> bool:
    """Whether the gateway killed itself between the order and the end of it."""
    await house.gateway.while_alive(house.at_rest())
    await house.gateway.arm(when)
    try:
        assert "is ordered" in await orders.order(
            str(house.settings["database_url"]), "usage", now=time.time()
        )
        await house.gateway.while_alive(told(house, count))
    except Died:
        assert await house.gateway.ended() == -signal.SIGKILL
        return True
    return False


async def told(house: Surroundings, count: int) -> None:
    """So many summaries were written down, and each was sent once, or nobody knows whether it was."""
    await house.stored(f"select 1 where (select count(*) from ({USAGE})) = {count}")
    await house.at_rest()
    states = [state for (state,) in house.rows(USAGE)]
    assert len(states) == count
    shown = sum(text.startswith("Usage, ") for text in house.texts())
    assert states.count("done") <= shown <= count
    assert house.rows("select id, state, error from inbox where state <> 'done'") == []
