"""`bench gateway` with the real gateway in a process of its own, before a simulated endpoint; and its
arithmetic.
"""

import asyncio

import pytest

from bot.bench.endpoint import gateway
from bot.bench.endpoint import run as direct_run
from bot.bench.endpoint import simulated as direct_simulated
from bot.bench.endpoint.gateway import ProtocolTurns
from bot.bench.endpoint.protocols import ANSWER_PROTOCOLS, BenchProtocol
from bot.bench.endpoint.result import MeasuredCall, MeasuredRow
from bot.bench.endpoint.run import EndpointAddress
from bot.db.usage.breakdowns import AccountedTurn, AnswerPartRow, ModelCallRow, StoredBreakdown
from bot.sim.vllm.server import ChatRequest, ScriptedReply, SimulatedEndpoint, Timing
from bot.usage.breakdown import build_turn_breakdown
from bot.usage.intervals import INTERVAL_ORDER, column_name

SET = 0.2


def ignore_progress(label: str, done: int, total: int) -> None:
    """A step nobody looks at."""


async def test_both_ways_stand_side_by_side_and_the_difference_is_explained() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.canvas(SET))
    steps: list[str] = []

    def step(what: str, done: int, total: int) -> None:
        steps.append(what)

    result = await direct_run.run_gateway(
        EndpointAddress("sim"), asyncio.Event(), step, quick=True, endpoint=endpoint
    )
    assert result.ended is None
    assert "long answers, four at once, gateway" in steps
    for protocol in ANSWER_PROTOCOLS:
        direct, through = result.find_row("direct", protocol.key), result.find_row("gateway", protocol.key)
        assert direct is not None
        assert through is not None
        assert [call.output for call in through.calls] == [call.output for call in direct.calls]
        assert (through.canvases, through.at_once) == (direct.canvases, direct.at_once)
        assert (through.calls[0].prompt or 0) > (direct.calls[0].prompt or 0)
        assert through.counted is not None
        assert through.counted.canvases == through.canvases
    told = dict(result.conditions)["server's own counters"]
    assert told.startswith(f"{len(endpoint.requests)} requests ended there, all of them ours")
    assert len(result.differences) == len(ANSWER_PROTOCOLS)
    for one in result.differences:
        assert one.direct + one.longer_model + one.beside_model == pytest.approx(one.gateway)
        assert sum(interval.seconds for interval in one.intervals) == pytest.approx(one.beside_model)
        assert one.model >= SET
        assert "Telegram" in {interval.kind for interval in one.intervals}


async def test_an_endpoint_that_refuses_leaves_the_rows_before_it() -> None:
    asked = 0

    def brain(request: ChatRequest) -> ScriptedReply:
        nonlocal asked
        asked += bool(request.tools)
        return ScriptedReply(direct_simulated.answer_prompt(request), crashes_engine=asked == 3)

    result = await direct_run.run_gateway(
        EndpointAddress("sim"),
        asyncio.Event(),
        ignore_progress,
        quick=True,
        endpoint=SimulatedEndpoint(brain=brain),
    )
    assert result.exit_code == 1
    assert result.ended is not None
    assert result.ended.startswith("The gateway had no answer to ")
    last = result.rows[-1]
    assert (last.way, last.key, len(last.calls), last.wanted) == ("gateway", "long", 1, 2)
    assert result.differences == ()


async def test_a_gateway_that_does_not_start_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "START", 0.01)
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    result = await direct_run.run_gateway(
        EndpointAddress("sim"), asyncio.Event(), ignore_progress, quick=True, endpoint=endpoint
    )
    assert result.exit_code == 1
    assert result.ended is not None
    assert "the gateway did not begin to poll within 0.01 s" in result.ended
    assert {row.way for row in result.rows} == {"direct"}


LONG = BenchProtocol("long", "long answers", ANSWER_PROTOCOLS[0].prompts[:1])


def protocol_turns(ending: str = "answered", output: int | None = 300) -> ProtocolTurns:
    """One turn of 2.6 s, two of them canvases."""
    call = ModelCallRow("ok", None, 600, 500, output, False)
    spent = {"intake": 0.1, "first_canvas": 1.0, "further_canvases": 1.0, "telegram": 0.3, "own": 0.2}
    kept = StoredBreakdown(1, 12.6, 2.6, {column_name(kind): 0.0 for kind in INTERVAL_ORDER} | spent)
    turn = AccountedTurn(1, ending, 10.0, kept, (call,), (), (AnswerPartRow(5, 11.4),))
    return ProtocolTurns(LONG, (turn,), (build_turn_breakdown(turn),))


def test_a_turn_becomes_a_call_with_its_whole_way() -> None:
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


def test_no_difference_is_told_of_what_is_not_whole() -> None:
    direct = MeasuredRow(
        "long", "long answers", "direct", True, "off", 1, "warm", 1, (MeasuredCall(2.0, 300),), 2.0
    )
    found = gateway.compute_difference(direct, protocol_turns())
    assert found is not None
    assert [found.direct, found.model] == pytest.approx([2.0, 2.0])
    assert list(found.tokens) == [(None, 300), (600, 300)]
    assert gateway.compute_difference(direct, protocol_turns("away")) is None
