"""Killed after every commit of a house job that tells admins something: it is told once an order, never
twice.
"""

import signal
import time

import pytest

from bot.cli import system_jobs as orders
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied

USAGE = "select state from outbox where body like '%Usage, %'"


@pytest.mark.timeout(240)
async def test_after_every_commit_of_a_summary(surround: OpenEnvironment):
    house = await surround(usage_summary="daily")
    house.ann.send("@@say:Hello@@")  # a bot may not write first
    await house.until(lambda: "Hello" in house.texts())
    await house.wait_for_row("select 1 from jobs where name = 'usage'")
    commit = 1
    while await is_killed_on_the_way(house, f"after {commit}", commit):
        await house.gateway.start()
        await wait_for_summaries(house, commit)
        commit += 1
    await wait_for_summaries(house, commit)
    assert commit > 3


async def is_killed_on_the_way(environment: KillEnvironment, when: str, count: int) -> bool:
    """Whether the gateway killed itself between the order and the end of it."""
    await environment.gateway.while_alive(environment.wait_until_idle())
    await environment.gateway.arm(when)
    try:
        assert "is ordered" in await orders.run_system_job(
            str(environment.settings["database_url"]), "usage", now=time.time()
        )
        await environment.gateway.while_alive(wait_for_summaries(environment, count))
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    return False


async def wait_for_summaries(environment: KillEnvironment, count: int) -> None:
    """So many summaries were written down, and each was sent once, or nobody knows whether it was."""
    await environment.wait_for_row(f"select 1 where (select count(*) from ({USAGE})) = {count}")
    await environment.wait_until_idle()
    states = [state for (state,) in environment.load_rows(USAGE)]
    assert len(states) == count
    shown = sum(text.startswith("Usage, ") for text in environment.texts())
    assert states.count("done") <= shown <= count
    assert environment.load_rows("select id, state, error from inbox where state <> 'done'") == []
