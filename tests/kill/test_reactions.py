"""Killed around the commits of a reaction: it is stored as one verdict, and offers another answer once."""

from functools import partial

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment


async def test_around_the_commits_of_a_reaction(surround: OpenEnvironment):
    environment = await surround()
    environment.ann.send("@@say:one@@")
    await environment.wait_for_answers("one")
    [answer] = environment.messages()
    kills = 0
    for moment in ("before 1", "after 1", "after 2"):
        await environment.gateway.arm(moment)
        environment.ann.react(answer, "👎")
        kills += await environment.revive(partial(wait_for_verdict, environment, answer))
        environment.ann.react(answer, "")
        await environment.wait_for_row("select 1 from verdicts where value is null")
        await environment.wait_until_idle()
    assert kills >= 2
    assert environment.load_rows("select count(*) from verdicts") == [(1,)]
    assert (environment.texts(), len(environment.endpoint.requests)) == (["one"], 1)


async def wait_for_verdict(environment: KillEnvironment, answer: ChatMessage) -> None:
    """Wait until the reaction is stored, and the offer stands below the answer."""
    await environment.until(lambda: bool(answer.buttons))
    await environment.wait_for_row("select 1 from verdicts where value = 'bad'")
    await environment.wait_until_idle()
