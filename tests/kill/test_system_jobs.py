"""Killed after every commit of a system job that notifies admins: one notice an order, never two."""

import signal
import time

from bot.cli import system_jobs
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied

USAGE = "select state from outbox where body like '%Usage, %'"


async def test_after_every_commit_of_a_summary(surround: OpenEnvironment):
    environment = await surround(usage_summary="daily")
    environment.ann.send("@@say:Hello@@")  # a bot may not write first
    await environment.until(lambda: "Hello" in environment.texts())
    await environment.wait_for_row("select 1 from jobs where name = 'usage'")
    commit = 1
    while await is_killed_on_the_way(environment, f"after {commit}", commit):
        await environment.gateway.start()
        await wait_for_summaries(environment, commit)
        commit += 1
    await wait_for_summaries(environment, commit)
    assert commit > 3


async def is_killed_on_the_way(environment: KillEnvironment, when: str, count: int) -> bool:
    """Whether the gateway killed itself between the order and the end of the job."""
    await environment.gateway.while_alive(environment.wait_until_idle())
    await environment.gateway.arm(when)
    try:
        url = str(environment.settings["database_url"])
        assert "is ordered" in await system_jobs.run_system_job(url, "usage", now=time.time())
        await environment.gateway.while_alive(wait_for_summaries(environment, count))
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    return False


async def wait_for_summaries(environment: KillEnvironment, count: int) -> None:
    """Wait for so many summaries, and assert that each was sent once, or is in doubt."""
    await environment.wait_for_row(f"select 1 where (select count(*) from ({USAGE})) = {count}")
    await environment.wait_until_idle()
    states = [state for (state,) in environment.load_rows(USAGE)]
    assert len(states) == count
    shown_count = sum(text.startswith("Usage, ") for text in environment.texts())
    assert states.count("done") <= shown_count <= count
    assert environment.load_rows("select id, state, error from inbox where state <> 'done'") == []
