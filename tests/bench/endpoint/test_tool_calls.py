"""What the bench holds for a right call of a tool."""

import pytest

from bot.bench.endpoint import tool_calls as direct_tools
from bot.domain import CallTimes, ToolCall, Usage
from bot.domain import Reply as ModelReply

WEATHER = direct_tools.TOOL_CALL_CASES[0]
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
    made = tuple(ToolCall(str(place), *call) for place, call in enumerate(calls))
    reply = ModelReply("", "", made, finish, Usage(), CallTimes(0.0))
    assert direct_tools.judge_reply(reply, WEATHER, direct_tools.build_toolbox().tools) == verdict


def test_every_case_can_be_fulfilled() -> None:
    tools = direct_tools.build_toolbox().tools
    for case in direct_tools.TOOL_CALL_CASES:
        assert case.tool_name in tools
        assert all(text in str(case.arguments[key]).lower() for key, text in case.required_texts.items())
