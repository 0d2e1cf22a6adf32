"""Killed around every commit of a reaction: it is stored as one verdict, and offers another answer once."""

import signal

from bot.sim.telegram.chats import ChatMessage
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import GatewayDied


async def test_around_every_commit_of_a_reaction(surround: OpenEnvironment):
    environment = await surround()
    environment.ann.send("@@say:one@@")
    await environment.wait_for_answers("one")
    await environment.wait_until_idle()
    [answer] = environment.messages()
    commit = 1
    while await is_killed_on_the_way(environment, answer, f"{('after', 'before')[commit % 2]} {commit}"):
        await environment.gateway.start()
        await wait_for_verdict(environment, answer)
        environment.ann.react(answer, "")
        await environment.wait_for_row("select 1 from verdicts where value is null")
        await environment.wait_until_idle()
        commit += 1
    assert commit > 2
    assert environment.load_rows("select count(*) from verdicts") == [(1,)]
    assert (environment.texts(), len(environment.endpoint.requests)) == (["one"], 1)


async def is_killed_on_the_way(environment: KillEnvironment, answer: ChatMessage, when: str) -> bool:
    """Whether the gateway killed itself while it handled a reaction."""
    await environment.gateway.arm(when)
    environment.ann.react(answer, "👎")
    try:
        await environment.gateway.while_alive(wait_for_verdict(environment, answer))
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    return False


async def wait_for_verdict(environment: KillEnvironment, answer: ChatMessage) -> None:
    """Wait until the reaction is stored, and the offer stands below the answer."""
    await environment.until(lambda: bool(answer.buttons))
    await environment.wait_for_row("select 1 from verdicts where value = 'bad'")
