"""`bench gateway` with the real gateway in its own process on a simulated endpoint; and its arithmetic."""

import asyncio
from dataclasses import replace

import pytest

from bot.bench.endpoint import gateway, simulated
from bot.bench.endpoint.gateway import ProtocolTurns
from bot.bench.endpoint.protocols import ANSWER_PROTOCOLS, BenchProtocol
from bot.bench.endpoint.result import MeasuredCall, MeasuredRow
from bot.bench.endpoint.run import EndpointAddress, run_gateway
from bot.db.usage.turn_steps import PartStep
from bot.sim.vllm.server import ChatRequest, Timing
from bot.usage.breakdown import build_turn_breakdown
from bot.usage.intervals import INTERVAL_ORDER, column_name
from tests.support.bench_endpoint import build_bench_endpoint
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply
from tests.support.turn_steps import CALL, TURN

pytestmark = pytest.mark.usefixtures("forked_bots")

CANVAS_SECONDS = 0.02


def ignore_progress(label: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


async def test_direct_and_gateway_rows_are_compared_and_the_difference_is_explained() -> None:
    endpoint = build_bench_endpoint(Timing.canvas(CANVAS_SECONDS))
    steps: list[str] = []

    def step(task: str, done: int, total: int) -> None:
        steps.append(task)

    result = await run_gateway(EndpointAddress("sim"), asyncio.Event(), step, quick=True, endpoint=endpoint)
    assert result.ended is None
    assert "long answers, four at once, gateway" in steps
    for protocol in ANSWER_PROTOCOLS:
        direct = result.find_row("direct", protocol.key)
        gateway_row = result.find_row("gateway", protocol.key)
        assert direct is not None
        assert gateway_row is not None
        assert [call.output for call in gateway_row.calls] == [call.output for call in direct.calls]
        assert (gateway_row.canvases, gateway_row.at_once) == (direct.canvases, direct.at_once)
        assert (gateway_row.calls[0].prompt or 0) > (direct.calls[0].prompt or 0)
        assert gateway_row.counted is not None
        assert gateway_row.counted.canvases == gateway_row.canvases
    counters = dict(result.conditions)["server's own counters"]
    assert counters.startswith(f"{len(endpoint.requests)} requests ended there, all of them ours")
    assert len(result.differences) == len(ANSWER_PROTOCOLS)
    for difference in result.differences:
        assert difference.direct + difference.longer_model + difference.beside_model == pytest.approx(
            difference.gateway
        )
        assert sum(interval.seconds for interval in difference.intervals) == pytest.approx(
            difference.beside_model
        )
        assert difference.model >= CANVAS_SECONDS
        assert "Telegram" in {interval.kind for interval in difference.intervals}


async def test_an_endpoint_that_fails_leaves_the_rows_before_it() -> None:
    tool_requests = 0

    def brain(request: ChatRequest) -> ScriptedReply:
        nonlocal tool_requests
        tool_requests += bool(request.tools)
        return ScriptedReply(simulated.answer_prompt(request), crashes_engine=tool_requests == 3)

    result = await run_gateway(
        EndpointAddress("sim"),
        asyncio.Event(),
        ignore_progress,
        quick=True,
        endpoint=ScriptedEndpoint(brain=brain),
    )
    assert result.exit_code == 1
    assert result.ended == "The measurement failed: a model call of the gateway failed."
    assert {row.way for row in result.rows} == {"direct"}
    assert result.differences == ()


async def test_a_gateway_that_does_not_start_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "START_SECONDS", 0.0)
    endpoint = build_bench_endpoint(Timing.instant())
    result = await run_gateway(
        EndpointAddress("sim"), asyncio.Event(), ignore_progress, quick=True, endpoint=endpoint
    )
    assert result.exit_code == 1
    assert result.ended is not None
    assert "the gateway did not begin to poll within 0 s" in result.ended
    assert {row.way for row in result.rows} == {"direct"}


LONG = BenchProtocol("long", "long answers", ANSWER_PROTOCOLS[0].prompts[:1])


def protocol_turns(ending: str = "answered", output: int | None = 300) -> ProtocolTurns:
    """One turn of 2.6 s, two of them canvases."""
    call = replace(CALL, prompt_tokens=600, cached_tokens=500, completion_tokens=output)
    seconds = {"intake": 0.1, "first_canvas": 1.0, "further_canvases": 1.0, "telegram": 0.3, "own": 0.2}
    account = {column_name(kind): 0.0 for kind in INTERVAL_ORDER} | seconds | {"whole": 2.6}
    part = PartStep("done", 11.0, 11.4, 12.6)
    turn = replace(TURN, ending=ending, received_at=10.0, account=account, calls=(call,), parts=(part,))
    return ProtocolTurns(LONG, (turn,), (build_turn_breakdown(turn),))


def test_a_turn_becomes_a_call_from_message_to_delivery() -> None:
    row = gateway.build_row(protocol_turns())
    call = row.calls[0]
    assert [call.seconds, call.first] == pytest.approx([2.6, 1.4])
    assert (call.output, call.canvases, call.prompt, call.cached) == (300, 2, 600, 500)
    assert row.wall == pytest.approx(2.6)
    unknown = gateway.build_row(protocol_turns(output=None)).calls[0]
    assert (unknown.output, unknown.canvases) == (None, None)


def test_a_turn_without_an_answer_is_no_call() -> None:
    assert gateway.build_row(protocol_turns("away")).calls == ()
    assert (
        gateway.describe_failure(protocol_turns("away"))
        == "The gateway had no answer to 1 of 1 messages (ending: away)."
    )
    assert gateway.describe_failure(protocol_turns()) is None


def test_no_difference_is_computed_for_incomplete_rows() -> None:
    direct = MeasuredRow(
        "long", "long answers", "direct", True, "off", 1, "warm", 1, (MeasuredCall(2.0, 300),), 2.0
    )
    difference = gateway.compute_difference(direct, protocol_turns())
    assert difference is not None
    assert [difference.direct, difference.model] == pytest.approx([2.0, 2.0])
    assert list(difference.tokens) == [(None, 300), (600, 300)]
    assert gateway.compute_difference(direct, protocol_turns("away")) is None
