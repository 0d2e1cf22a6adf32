"""Which replies count as a right call of a tool."""

import pytest

from bot.bench.endpoint.tool_calls import TOOL_CALL_CASES, build_toolbox, judge_reply
from bot.domain import CallTimes, Reply, ToolCall, Usage

WEATHER = TOOL_CALL_CASES[0]
LISBON = '{"place": "Lisbon"}'


@pytest.mark.parametrize(
    ("calls", "finish", "verdict"),
    [
        ([("weather", LISBON)], "tool_calls", "right"),
        ([("weather", '{"place": "Lisbon, Portugal", "days": 1}')], "tool_calls", "right"),
        ([("call:Weather", LISBON)], "tool_calls", "mended"),
        ([("weather", '{"place": "\\"Lisbon\\""}')], "tool_calls", "mended"),
        ([("weather", '"{\\"place\\": \\"Lisbon\\"}"')], "tool_calls", "mended"),
        ([("weather", LISBON)], "length", "wrong"),
        ([("weather", '{"place": "Porto"}')], "tool_calls", "wrong"),
        ([("weather", '{"place": "Lis')], "tool_calls", "wrong"),
        ([("search_web", '{"query": "weather in Lisbon"}')], "tool_calls", "wrong"),
        ([("weather", LISBON), ("weather", LISBON)], "tool_calls", "wrong"),
        ([], "stop", "wrong"),
    ],
)
def test_a_single_call_is_judged(calls: list[tuple[str, str]], finish: str, verdict: str) -> None:
    tool_calls = tuple(ToolCall(str(number), *call) for number, call in enumerate(calls))
    reply = Reply("", "", tool_calls, finish, Usage(), CallTimes(0.0))
    assert judge_reply(reply, WEATHER, build_toolbox().tools) == verdict


def test_every_case_can_be_fulfilled() -> None:
    tools = build_toolbox().tools
    for case in TOOL_CALL_CASES:
        assert case.tool_name in tools
        assert all(text in str(case.arguments[key]).lower() for key, text in case.required_texts.items())
