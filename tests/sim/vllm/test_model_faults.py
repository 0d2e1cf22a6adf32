from typing import Any

import pytest

from tests.support.endpoint.model_faults import MODEL_FAULTS
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply, reply_with, with_model_faults
from tests.support.endpoint_client import StreamedReply, open_client

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "F", "parameters": PARAMETERS}}
CALL = '<|tool_call>call:f{city:<|"|>Paris<|"|>}<tool_call|>'


async def reply_with_fault(name: str, raw: str | ScriptedReply) -> StreamedReply:
    endpoint = ScriptedEndpoint(brain=with_model_faults(reply_with(raw), 1, fault_names=[name]))
    async with open_client(endpoint) as player:
        return (await player.send_text("x", tools=[TOOL], stream=True)).streamed_reply


@pytest.mark.parametrize(
    ("name", "raw", "calls", "content", "reasoning"),
    [
        ("empty turn", CALL, {}, "", ""),
        ("answer as thought", "Hello", {}, "", "Hello"),
        ("call without its opener", CALL, {}, 'call:f{city:<|"|>Paris<|"|>}', ""),
        ("round brackets", CALL, {0: ["f", '{"city": "Paris"}']}, "", ""),
        ("assigned", CALL, {0: ["f", "{}"]}, "", ""),
        ("plain quotes", CALL, {0: ["f", r'{"city": "\"Paris\""}']}, "", ""),
        ("name of the prefix", CALL, {0: ["call:f", '{"city": "Paris"}']}, "", ""),
        ("unknown name", CALL, {0: ["f_v2", '{"city": "Paris"}']}, "", ""),
        ("unfinished call", CALL, {0: ["f", '{"city": "Par"}']}, "", ""),
        ("unfinished call", "no call", {}, "no call", ""),
        ("key twice", CALL, {0: ["f", '{"city": "no, wait']}, "", ""),
        ("thought left open", CALL, {0: ["f", '{"city": "Paris"}']}, "", "hm"),
    ],
)
async def test_a_slip_reaches_the_client_as_the_server_leaves_it(
    name: str, raw: str, calls: Any, content: str, reasoning: str
) -> None:
    got = await reply_with_fault(name, raw)
    if name == "unfinished call" and calls:
        assert got.calls[0][1].startswith('{"city": "')
    else:
        assert got.calls == calls
    assert (got.content, got.reasoning) == (content, reasoning)


async def test_a_slip_keeps_the_delay_of_its_reply() -> None:
    assert (await reply_with_fault("empty turn", ScriptedReply("text", canvas_delay=0.001))).content == ""


def test_only_a_share_slips_and_always_the_same() -> None:
    brains = [
        with_model_faults(reply_with("text"), 0.4, fault_names=["empty turn"], seed=3) for _ in range(2)
    ]
    replies = [[brain(None) for _ in range(50)] for brain in brains]  # type: ignore[arg-type]
    assert replies[0] == replies[1]
    assert 10 < replies[0].count("") < 30
    assert set(replies[0]) == {"", "text"}


def test_every_slip_takes_any_text() -> None:
    for slip in MODEL_FAULTS.values():
        assert isinstance(slip(""), str)
        assert slip("plain").count("plain") <= 1
