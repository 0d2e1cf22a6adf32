"""Killed after commits of a system job that notifies admins: one notice an order, never two."""

import time
from functools import partial

from bot.cli import system_jobs
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment, find_zone_at_noon

USAGE = "select state from outbox where body like '%Usage, %'"


async def test_after_the_commits_of_a_summary(surround: OpenEnvironment):
    environment = await surround(usage_summary="daily", time_zone=find_zone_at_noon())
    environment.ann.send("@@say:Hello@@")  # a bot may not write first
    await environment.until(lambda: "Hello" in environment.texts())
    await environment.wait_for_row("select 1 from jobs where name = 'usage'")
    url = str(environment.settings["database_url"])
    for count, moment in enumerate(("after 1", "after 2", "after 3"), start=1):
        await environment.wait_until_idle()
        await environment.gateway.arm(moment)
        assert "is ordered" in await system_jobs.run_system_job(url, "usage", now=time.time())
        await environment.revive(partial(wait_for_summaries, environment, count))


async def wait_for_summaries(environment: KillEnvironment, count: int) -> None:
    """Wait for so many summaries, and assert that each was sent once, or is in doubt."""
    await environment.wait_for_row(f"select 1 where (select count(*) from ({USAGE})) = {count}")
    await environment.wait_until_idle()
    states = [state for (state,) in environment.load_rows(USAGE)]
    assert len(states) == count
    shown_count = sum(text.startswith("Usage, ") for text in environment.texts())
    assert states.count("done") <= shown_count <= count
    assert environment.load_rows("select id, state, error from inbox where state <> 'done'") == []
