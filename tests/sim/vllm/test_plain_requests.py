"""What the simulated model does when it is request_text plainly."""

import json

import pytest

from tests.support.endpoint.plain_requests import answer_plain_request
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.endpoint_client import open_client

LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"properties": {"place": {"type": "string"}}}},
}
CALLING = (
    "Call look once for each of these places, side by side: Paris, Rome. Then answer with the one word done."
)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Answer with the one word ready, and nothing else.", "ready"),
        ("Write the numbers from 9 to 12, separated by blanks.", "9 10 11 12"),
        ("What is 17 times 23? Think first.", "391"),
        ("How are you?", None),
        (CALLING, None),  # the tool is not offered
    ],
)
def test_plain_wishes_are_done(request_text: str, expected: str | None) -> None:
    assert answer_plain_request(request_text, [], has_tool_results=False) == expected


async def test_tools_are_called_for_each_thing_and_then_the_word_is_said() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        first = await player.send_text(CALLING, tools=[LOOK])
        calls = first.message["tool_calls"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "fine"} for call in calls]
        messages = [
            {"role": "user", "content": CALLING},
            {"role": "assistant", "tool_calls": calls},
            *results,
        ]
        second = await player.send({"messages": messages, "tools": [LOOK]})
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        {"place": "Paris"},
        {"place": "Rome"},
    ]
    assert second.message["content"] == "done"


def test_a_tool_that_declares_nothing_is_called_all_the_same() -> None:
    bare = {"type": "function", "function": {"name": "look"}}
    assert answer_plain_request(CALLING, [bare], has_tool_results=False) == [
        ("look", {"thing": "Paris"}),
        ("look", {"thing": "Rome"}),
    ]
