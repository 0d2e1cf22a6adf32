"""`bench direct` against a simulated endpoint: it finds what the simulator is set to, and says what it cannot
know.

These are tests of the bench. No figure here says anything of a model.
"""

import asyncio
import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bot.__main__ import cli
from bot.bench.endpoint import direct
from bot.bench.endpoint import run as direct_run
from bot.bench.endpoint import simulated as direct_simulated
from bot.bench.endpoint.client import BenchTarget
from bot.bench.endpoint.conditions import describe_conditions
from bot.bench.endpoint.direct import DirectOptions, subtract_counters
from bot.bench.endpoint.protocols import (
    LONG_TOKENS,
    PROTOCOLS,
    SHORT_PROMPTS,
    BenchProtocol,
    ProtocolPrompt,
    select_protocols,
)
from bot.bench.endpoint.result import STOPPED_BY_HAND, BenchResult, MeasuredRow, ServerCounts
from bot.bench.endpoint.run import EndpointAddress
from bot.bench.harness import progress
from bot.errors import KeyRefused, ServerAway, SettingsRefused
from bot.http_server import serve
from bot.llm.server_api import ServerCounters
from bot.sim.vllm.server import ChatRequest, Profile, ScriptedReply, SimulatedEndpoint, Timing

SET = 0.5  # seconds a canvas
NEAR = 0.03
STORY = next(one for one in PROTOCOLS if one.key == "lengths").prompts[-1]
FOUR_CANVASES = BenchProtocol("long", "four canvases each", (STORY,) * 3)
BRIEF = BenchProtocol("short", "short", SHORT_PROMPTS[:2])


def ignore_progress(label: str, done: int, total: int) -> None:
    """A step nobody looks at."""


async def measure(endpoint: SimulatedEndpoint, wish: DirectOptions | None = None) -> BenchResult:
    wish = wish or DirectOptions((BRIEF,), include_tools=False)
    return await direct_run.run(EndpointAddress("sim"), wish, asyncio.Event(), ignore_progress, endpoint)


def rows_by_key(result: BenchResult) -> dict[str, MeasuredRow]:
    return {f"{row.key} {'streamed' if row.streamed else 'whole'}": row for row in result.rows}


def logged_canvas_seconds(endpoint: SimulatedEndpoint) -> float:
    """What canvases after the first really took in the long answers, by the simulator's own log."""
    log = [one for one in endpoint.requests if one.canvases > 2]
    return sum((one.finished_at or 0) - (one.first_canvas_at or 0) for one in log) / sum(
        one.canvases - 1 for one in log
    )


async def test_the_simulators_settings_are_found_within_three_percent() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.canvas(SET))
    result = await measure(
        endpoint, DirectOptions((FOUR_CANVASES,), include_whole=False, include_tools=False)
    )
    real = logged_canvas_seconds(endpoint)
    assert real >= SET
    assert result.canvas_seconds == pytest.approx(real, rel=NEAR)
    row = rows_by_key(result)["long streamed"]
    assert row.seconds_per_further_canvas == pytest.approx(real, rel=NEAR)
    assert [call.output for call in row.calls] == [1024] * 3
    assert [call.blocks for call in row.calls] == [4] * 3
    assert row.canvases == 12
    assert row.counted == ServerCounts(12, 16)
    assert row.wall >= 12 * SET
    assert [call.prompt for call in row.calls] == [one.prompt_tokens for one in endpoint.requests[-3:]]


async def test_seats_are_found_in_the_wall_of_what_came_at_once() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.canvas(SET))
    four = BenchProtocol("together", "four at once", (STORY,) * 2, at_once=2)
    alone = replace(four, at_once=1)
    result = await measure(
        endpoint, DirectOptions((four, replace(alone, key="one")), include_whole=False, include_tools=False)
    )
    walls = {row.key: row.wall for row in result.rows}
    assert walls["one"] == pytest.approx(2 * walls["together"], rel=0.1)
    assert endpoint.peak_running == 2
    assert (rows_by_key(result)["together streamed"].total_tokens_per_second or 0) > (
        rows_by_key(result)["one streamed"].tokens_per_second or 0
    )


async def test_every_protocol_is_asked_streamed_and_whole_and_nothing_is_sent_that_is_refused() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    result = await measure(endpoint, DirectOptions())
    assert result.ended is None
    kinds = list(rows_by_key(result))
    assert kinds[0] == "first streamed"
    assert kinds[-1] == "lengths streamed"
    assert len(kinds) == 1 + 2 * len(PROTOCOLS) - 1
    for request in endpoint.requests:
        assert not {"temperature", "seed", "min_p"} & request.body.keys()
        assert request.status == 200
        assert "chat_template_kwargs" in request.body
    assert [one.body["stream"] for one in endpoint.requests].count(False) == 4 * 6
    assert rows_by_key(result)["long whole"].calls[0].output == LONG_TOKENS
    assert rows_by_key(result)["long whole"].first_block_seconds is None
    off, on = result.tools
    assert (off.thinking, off.tried, off.right, off.mended) == ("off", 8, 8, 8)
    assert (on.thinking, on.right) == ("on", 8)
    assert all((call.reasoning or 0) >= direct_simulated.THOUGHT_TOKENS for call in on.calls)
    told = dict(result.conditions)
    assert next(iter(told)) == "SIMULATION"
    assert told["server's own counters"].startswith(
        f"{len(endpoint.requests)} requests ended there, all of them ours"
    )


async def test_the_first_request_is_cold_only_before_a_server_that_served_nobody() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    first, second = await measure(endpoint), await measure(endpoint)
    assert (first.rows[0].warm, second.rows[0].warm) == ("cold", "warm")


async def test_a_quick_run_is_brief() -> None:
    assert len(select_protocols(PROTOCOLS, quick=True)) == len(PROTOCOLS) - 1
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    result = await measure(endpoint, DirectOptions(quick=True))
    assert all(row.streamed for row in result.rows)
    assert len(rows_by_key(result)["long streamed"].calls) == 2
    assert len(rows_by_key(result)["together streamed"].calls) == 4
    assert result.tools[0].tried == 2


async def test_an_endpoint_that_dies_half_way_leaves_what_was_done() -> None:
    asked = 0

    def brain(request: ChatRequest) -> ScriptedReply:
        nonlocal asked
        asked += 1
        return ScriptedReply(direct_simulated.answer_prompt(request), crashes_engine=asked == 4)

    result = await measure(SimulatedEndpoint(brain=brain))
    assert result.exit_code == 1
    assert result.ended == "The endpoint failed in the middle of the reply."
    assert [(row.key, len(row.calls), row.wanted) for row in result.rows] == [
        ("first", 1, 1),
        ("short", 1, 2),
    ]


async def measure_until_stopped(endpoint: SimulatedEndpoint, stop: asyncio.Event) -> BenchResult:
    """Measured until the first of two short answers has come."""

    def step(what: str, done: int, total: int) -> None:
        if what == BRIEF.label and done == 1:
            endpoint.hold()
            stop.set()

    result = await direct_run.run(EndpointAddress("sim"), DirectOptions((BRIEF,)), stop, step, endpoint)
    endpoint.release()
    return result


async def test_what_came_back_after_the_last_look_at_the_counters_is_not_laid_to_others() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    result = await measure_until_stopped(endpoint, asyncio.Event())
    told = dict(result.conditions)["server's own counters"]
    assert told.startswith("2 requests ended there, all of them ours")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, None, "requests are not counted, so whether others used it is unknown"),
        (9, 1, "they began anew meanwhile, so whether others used it is unknown"),
        (1, 3, "2 requests ended there, 3 answers are ours: there is another server behind this address"),
        (1, 4, "3 requests ended there, all of them ours"),
        (1, 5, "4 requests ended there, 3 answers are ours: others used it, too"),
    ],
)
def test_what_the_counters_say_of_others(before: int | None, after: int | None, words: str) -> None:
    taken = direct.EndpointMeasurements(
        counters_before=ServerCounters(requests=before),
        counters_after=ServerCounters(requests=after),
        calls_at_counters=3,
    )
    told = dict(
        describe_conditions(BenchTarget("http://gpu/v1", None, "m", None, "0.33.0"), taken, datetime.now(UTC))
    )
    assert told["server's own counters"] == f"{words}; no diffusion counters"


async def test_a_dead_endpoint_is_said_before_anything_is_measured() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    endpoint.inject_fault("busy", times=None)
    result = await measure(endpoint)
    assert (result.rows, result.exit_code) == ((), 1)
    assert result.ended == "The endpoint is busy or not ready (HTTP 503)."


async def test_ctrl_c_keeps_what_is_done() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    stop = asyncio.Event()
    result = await measure_until_stopped(endpoint, stop)
    assert (result.ended, result.exit_code) == (STOPPED_BY_HAND, 130)
    assert [(row.key, len(row.calls)) for row in result.rows] == [("first", 1), ("short", 1)]
    endpoint.hold()
    nothing_yet = await direct_run.run(
        EndpointAddress("sim"), DirectOptions((BRIEF,)), stop, ignore_progress, endpoint
    )
    endpoint.release()
    assert nothing_yet.rows == ()


async def test_a_server_without_usage_leaves_tokens_unknown() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())
    endpoint.inject_fault("no_usage", times=None)
    result = await measure(endpoint, DirectOptions((BRIEF,), include_whole=False, include_tools=False))
    row = rows_by_key(result)["short streamed"]
    assert (row.output_tokens, row.canvases, row.seconds_per_canvas, row.tokens_per_second) == (None,) * 4
    assert "sent none with 3 of 3 answers" in dict(result.conditions)["usage"]
    assert "not seen" in dict(result.conditions)["flags known"]


async def test_a_hosted_model_is_asked_in_the_common_protocol_and_said_to_write_no_canvases() -> None:
    endpoint = replace(
        direct_simulated.build_simulated_endpoint(Timing.instant()), profile=Profile.hosted_api()
    )
    result = await measure(endpoint, DirectOptions((BRIEF,), include_tools=True, quick=True))
    assert result.rows[0].warm == "unknown"
    assert result.rows[0].thinking == direct.THINKING_SERVER_DEFAULT
    assert {case.thinking for case in result.tools} == {direct.THINKING_SERVER_DEFAULT}
    told = dict(result.conditions)
    assert "this does not write in canvases" in told["usage"]
    assert told["server"].startswith("no vLLM")
    assert told["server's own counters"].startswith("not readable")
    assert all("chat_template_kwargs" not in request.body for request in endpoint.requests)


async def test_others_at_the_endpoint_are_told() -> None:
    endpoint = direct_simulated.build_simulated_endpoint(Timing.instant())

    def step(what: str, done: int, total: int) -> None:
        endpoint._engine.metrics.finished["stop"] += what == BRIEF.label and done == 1

    async with serve(endpoint.app) as url:
        wish = DirectOptions((BRIEF,), include_whole=False, include_tools=False)
        result = await direct_run.run(EndpointAddress(url), wish, asyncio.Event(), step)
    told = dict(result.conditions)
    assert "SIMULATION" not in told
    words = "5 requests ended there, 4 answers are ours: others used it, too"
    assert told["server's own counters"].startswith(words)


async def test_a_server_that_is_no_diffusion_model_has_no_steps() -> None:
    endpoint = SimulatedEndpoint(
        profile=replace(Profile.today(), diffusion_checks=False), brain=direct_simulated.answer_prompt
    )
    result = await measure(endpoint)
    assert dict(result.conditions)["server's own counters"].endswith("; no diffusion counters")
    assert result.rows[0].counted is None


def test_counters_that_cannot_be_compared_say_nothing() -> None:
    some = ServerCounters(1, 1, 1, 1, 17, 256)
    assert subtract_counters(ServerCounters(0, 0, 0, 0, 0, 0), some) == ServerCounts(1, 16)
    assert subtract_counters(some, ServerCounters(0, 0, 0, 0, 0, 0)) is None
    assert subtract_counters(some, some) is None
    assert subtract_counters(None, some) is None
    assert subtract_counters(ServerCounters(1), ServerCounters(2)) is None


async def test_an_address_without_an_endpoint_is_named() -> None:
    with pytest.raises(ServerAway, match="Nothing answers"):
        await direct_run.run(
            EndpointAddress("http://127.0.0.1:9"), DirectOptions(), asyncio.Event(), ignore_progress
        )
    with pytest.raises(SettingsRefused, match=r"^--endpoint must be a web address"):
        await direct_run.run(EndpointAddress("nonsense"), DirectOptions(), asyncio.Event(), ignore_progress)
    endpoint = replace(direct_simulated.build_simulated_endpoint(), api_key="secret")
    async with serve(endpoint.app) as url:
        with pytest.raises(KeyRefused, match="wants a key"):
            await direct_run.run(EndpointAddress(url), DirectOptions(), asyncio.Event(), ignore_progress)


def test_prompts_of_protocols_are_told_apart() -> None:
    asks: set[ProtocolPrompt] = {ask for one in PROTOCOLS for ask in one.prompts if one.key != "lengths"}
    assert len({ask.text for ask in asks}) == len(asks)


def test_bars_are_shown_on_a_terminal_alone() -> None:
    for terminal in (True, False):
        screen = io.StringIO()
        with progress.progress_bars(Console(file=screen, force_terminal=terminal, width=100)) as step:
            step("long answers", 0, 4)
            step("long answers", 4, 4)
        assert ("long answers" in screen.getvalue()) == terminal
        assert ("4/4" in screen.getvalue()) == terminal


def test_the_commands_print_what_was_found_and_end_as_it_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    async def half(*_: object, **__: object) -> BenchResult:
        return BenchResult((), (("date", "today"),), ended=STOPPED_BY_HAND)

    monkeypatch.setattr(direct_run, "run", half)
    monkeypatch.setattr(direct_run, "run_gateway", half)
    for command in ("direct", "gateway"):
        done = CliRunner().invoke(cli, ["bench", command, "--out", str(tmp_path / command), "--json"])
        assert done.exit_code == 130
        assert json.loads(done.stdout)["ended"] == STOPPED_BY_HAND
        assert "written: " in done.stderr
        plain = CliRunner().invoke(cli, ["bench", command, "--endpoint", "http://gpu:8000/v1", "--quick"])
        assert plain.stdout.startswith("NOT WHOLE: It was stopped by hand.")
