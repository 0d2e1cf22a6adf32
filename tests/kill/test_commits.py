"""Killed just before or just after every commit of a message, one after the other: that is every step."""

import json
import signal

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import SENT_AGAIN, UNSURE, KillEnvironment
from tests.kill.gateway import GatewayDied

PROSE = write_prose(150, 1)[1:] + " "  # longer than the repeated patterns a server searches for
ANSWER = (PROSE * 3).strip()


async def test_around_every_commit(surround: OpenEnvironment):
    """Before each odd commit and after each even one."""
    environment = await surround(SimulatedEndpoint(timing=Timing(canvas_seconds=0.05)))
    commit = 1
    while await is_killed_on_the_way(environment, f"{('after', 'before')[commit % 2]} {commit}", commit):
        await environment.gateway.start()
        await assert_answered_once(environment, commit)
        assert_tools_ran_once(environment, commit)
        environment.assert_all_accounted()
        commit += 1
    assert commit > 12


async def is_killed_on_the_way(environment: KillEnvironment, when: str, chat: int) -> bool:
    """Whether the gateway killed itself while it answered a message with three tools, block by block."""
    await environment.gateway.arm(when)
    calls = [
        {"name": "ring", "arguments": {"address": f"{environment.bells.url}/ring-{chat}"}},
        {"name": "look", "arguments": {"address": f"{environment.bells.url}/look-{chat}"}},
        {"name": "remember", "arguments": {"note": f"note {chat}"}},
    ]
    environment.api.person(chat).send(f"@@tools:{json.dumps(calls)}@@@@repeat:3 {PROSE}@@")
    try:
        await environment.until(lambda: ANSWER in environment.texts(chat))
        await environment.gateway.while_alive(environment.wait_until_idle())
    except GatewayDied:
        assert await environment.gateway.wait_for_exit() == -signal.SIGKILL
        return True
    return False


async def assert_answered_once(environment: KillEnvironment, chat: int) -> None:
    """Assert that the answer is there; or that its doubt is said, and it comes when the user asks for it."""
    await environment.until(lambda: ANSWER in environment.texts(chat) or environment.doubtful_messages(chat))
    await environment.wait_until_idle()
    doubts = environment.doubtful_messages(chat)
    if doubts:
        assert environment.texts(chat).count(ANSWER) <= 1
        text_count = len(environment.texts(chat))
        environment.api.person(chat).tap(doubts[0], "Send again")
        await environment.until(lambda: len(environment.texts(chat)) > text_count)
        await environment.wait_until_idle()
        assert environment.texts(chat)[-2:] == [SENT_AGAIN, ANSWER]
    else:
        assert environment.texts(chat) == [ANSWER]
    assert len(doubts) <= 1
    assert UNSURE not in environment.texts(chat)


def assert_tools_ran_once(environment: KillEnvironment, chat: int) -> None:
    """Assert that unrepeatable tools ran once, or at most once with an outcome that is said to be unknown."""
    rows = "select name, outcome from tool_calls join turns on turns.id = tool_calls.turn where lane = '{}'"
    outcomes = dict(environment.load_rows(rows.format(chat)))
    assert set(outcomes) == {"ring", "look", "remember"}
    assert outcomes["look"] == "ok"
    assert environment.bells.rung[f"look-{chat}"] in {1, 2}
    run_counts = {
        "ring": environment.bells.rung[f"ring-{chat}"],
        "remember": len(environment.load_rows(f"select 1 from notes where lane = '{chat}'")),
    }
    for tool, count in run_counts.items():
        assert count == 1 or (count, outcomes[tool]) == (0, "unknown")
