"""Killed around the commits of a message, one after the other: that is in every step."""

import json
from functools import partial

from bot.bench.harness.prose import write_prose
from bot.sim.vllm.server import Timing
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import SENT_AGAIN, UNSURE, KillEnvironment
from tests.support.endpoint.server import ScriptedEndpoint

PROSE = write_prose(150, 1)[1:] + " "  # longer than the repeated patterns a server searches for
ANSWER = (PROSE * 3).strip()
MOMENTS = (
    "after 1",
    "before 3",
    "after 4",
    "before 6",
    "after 7",
    "before 9",
    "after 10",
    "before 12",
    "after 13",
)


async def test_around_the_commits_of_a_message(surround: OpenEnvironment):
    environment = await surround(ScriptedEndpoint(timing=Timing(canvas_seconds=0.05)))
    kills = 0
    for chat, moment in enumerate(MOMENTS, start=1):
        await environment.gateway.arm(moment)
        send_message(environment, chat)
        kills += await environment.revive(partial(wait_for_answer, environment, chat))
        await assert_answered_once(environment, chat)
        assert_tools_ran_once(environment, chat)
        environment.assert_all_accounted()
    assert kills >= 3


def send_message(environment: KillEnvironment, chat: int) -> None:
    """Write a message that three tools and an answer of several blocks follow."""
    calls = [
        {"name": "ring", "arguments": {"address": f"{environment.bells.url}/ring-{chat}"}},
        {"name": "look", "arguments": {"address": f"{environment.bells.url}/look-{chat}"}},
        {"name": "remember", "arguments": {"note": f"note {chat}"}},
    ]
    environment.api.person(chat).send(f"@@tools:{json.dumps(calls)}@@@@repeat:3 {PROSE}@@")


async def wait_for_answer(environment: KillEnvironment, chat: int) -> None:
    await environment.until(lambda: ANSWER in environment.texts(chat) or environment.doubtful_messages(chat))
    await environment.wait_until_idle()


async def assert_answered_once(environment: KillEnvironment, chat: int) -> None:
    """Assert that the answer is there; or that its doubt is said, and it comes when the user asks for it."""
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
