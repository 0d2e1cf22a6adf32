"""`bench direct` on a simulated endpoint: it measures what the simulator is set to, and says what is unknown.

These are tests of the bench. No figure here says anything about a model.
"""

import asyncio
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from starlette.types import Receive, Scope, Send
from typer.testing import CliRunner

from bot.bench.endpoint import direct, output, simulated
from bot.bench.endpoint import run as run_module
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
from bot.bench.harness import machine, progress
from bot.cli.main import cli
from bot.errors import KeyRefused, ServerAway, SettingsRefused
from bot.http_server import serve
from bot.llm.server_api import ServerCounters
from bot.sim.vllm.server import ChatRequest, SimulatedEndpoint, Timing
from tests.support.bench_endpoint import build_bench_endpoint
from tests.support.endpoint.other_servers import OtherServer
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply, ServerProfile
from tests.support.terminal_text import lay_out

CANVAS_SECONDS = 0.02
STORY = next(protocol for protocol in PROTOCOLS if protocol.key == "lengths").prompts[-1]
FOUR_CANVASES = BenchProtocol("long", "four canvases each", (STORY,) * 3)
TWO_SHORT_ANSWERS = BenchProtocol("short", "short", SHORT_PROMPTS[:2])


def ignore_progress(label: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


async def measure(endpoint: SimulatedEndpoint, options: DirectOptions | None = None) -> BenchResult:
    options = options or DirectOptions((TWO_SHORT_ANSWERS,), include_tools=False)
    return await run_module.run(EndpointAddress("sim"), options, asyncio.Event(), ignore_progress, endpoint)


def rows_by_key(result: BenchResult) -> dict[str, MeasuredRow]:
    rows = {}
    for row in result.rows:
        mode = "streamed" if row.streamed else "whole"
        rows[f"{row.key} {mode}"] = row
    return rows


async def test_the_simulators_settings_are_what_is_measured() -> None:
    """No upper bound is judged: a busy machine takes any time, and says so in the figures."""
    endpoint = build_bench_endpoint(Timing.canvas(CANVAS_SECONDS))
    result = await measure(
        endpoint, DirectOptions((FOUR_CANVASES,), include_whole=False, include_tools=False)
    )
    row = rows_by_key(result)["long streamed"]
    assert [call.output for call in row.calls] == [1024] * 3
    assert [call.blocks for call in row.calls] == [4] * 3
    assert row.canvases == 12
    assert row.counted == ServerCounts(12, 16)
    assert row.wall >= 12 * CANVAS_SECONDS
    for call in row.calls:
        assert call.first is not None
        assert call.last is not None
        assert CANVAS_SECONDS <= call.first <= call.last <= call.seconds
        assert call.last >= 4 * CANVAS_SECONDS
    between_blocks = [((call.last or 0) - (call.first or 0)) / 3 for call in row.calls]
    assert row.seconds_per_further_canvas == pytest.approx(sum(between_blocks) / 3)
    assert result.canvas_seconds is not None
    assert [call.prompt for call in row.calls] == [record.prompt_tokens for record in endpoint.requests[-3:]]


async def test_answers_that_are_asked_for_at_once_are_measured_at_once() -> None:
    endpoint = build_bench_endpoint(Timing.canvas(CANVAS_SECONDS))
    two = BenchProtocol("together", "two at once", (STORY,) * 2, at_once=2)

    async def release_both() -> None:
        await endpoint.wait_until(lambda: endpoint.running == 2)
        endpoint.release()

    async with asyncio.TaskGroup() as tasks:

        def step(task: str, done: int, total: int) -> None:
            if (task, done) == (two.label, 0):
                endpoint.hold()
                tasks.create_task(release_both())

        options = DirectOptions(
            (replace(two, at_once=1, key="one", label="one"), two), include_whole=False, include_tools=False
        )
        result = await run_module.run(EndpointAddress("sim"), options, asyncio.Event(), step, endpoint)
    rows = {row.key: row for row in result.rows}
    assert endpoint.peak_running == 2
    assert rows["one"].wall >= 2 * 4 * CANVAS_SECONDS
    assert [len(row.calls) for row in rows.values()] == [1, 2, 2]


async def test_every_protocol_is_run_streamed_and_whole_and_no_refused_parameter_is_sent() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
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
    assert [record.body["stream"] for record in endpoint.requests].count(False) == 4 * 6
    assert rows_by_key(result)["long whole"].calls[0].output == LONG_TOKENS
    assert rows_by_key(result)["long whole"].first_block_seconds is None
    off, on = result.tools
    assert (off.thinking, off.tried, off.right, off.mended) == ("off", 8, 8, 8)
    assert (on.thinking, on.right) == ("on", 8)
    assert all((call.reasoning or 0) >= simulated.THOUGHT_TOKENS for call in on.calls)
    conditions = dict(result.conditions)
    assert next(iter(conditions)) == "SIMULATION"
    assert conditions["server's own counters"].startswith(
        f"{len(endpoint.requests)} requests ended there, all of them ours"
    )


async def test_the_first_request_is_cold_only_on_a_server_without_requests() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    first = await measure(endpoint)
    second = await measure(endpoint)
    assert (first.rows[0].warm, second.rows[0].warm) == ("cold", "warm")


async def test_the_conditions_name_the_limit_of_answers_and_what_is_unknown() -> None:
    result = await measure(build_bench_endpoint(Timing.instant()))
    conditions = dict(result.conditions)
    expected = "1,024, but where answers are cut at a length; tool calls 2,048"
    assert conditions["max_tokens"] == expected
    assert conditions["hardware of the server"].startswith("unknown")
    lines = lay_out(output.format_lines(result, compare=True))
    assert "Beside a published figure: seconds of one answer, the mean" in lines


async def test_the_first_request_uses_a_client_that_has_asked_before() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    requests: list[tuple[str, Any]] = []

    async def record(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if headers[b"user-agent"].startswith(b"AsyncOpenAI"):
            requests.append((scope["path"], scope["client"]))
        await endpoint.app(scope, receive, send)

    async with serve(record) as url:
        options = DirectOptions((TWO_SHORT_ANSWERS,), include_tools=False)
        await run_module.run(EndpointAddress(f"{url}/v1"), options, asyncio.Event(), ignore_progress)
    assert [path for path, _ in requests[:2]] == ["/v1/models", "/v1/chat/completions"]
    assert requests[0][1] == requests[1][1]


async def test_a_quick_run_is_short() -> None:
    assert len(select_protocols(PROTOCOLS, quick=True)) == len(PROTOCOLS) - 1
    endpoint = build_bench_endpoint(Timing.instant())
    result = await measure(endpoint, DirectOptions(quick=True))
    assert all(row.streamed for row in result.rows)
    assert len(rows_by_key(result)["long streamed"].calls) == 2
    assert len(rows_by_key(result)["together streamed"].calls) == 4
    assert result.tools[0].tried == 2


async def test_an_endpoint_that_fails_half_way_leaves_what_was_measured() -> None:
    request_count = 0

    def brain(request: ChatRequest) -> ScriptedReply:
        nonlocal request_count
        request_count += 1
        return ScriptedReply(simulated.answer_prompt(request), crashes_engine=request_count == 4)

    result = await measure(ScriptedEndpoint(brain=brain))
    assert result.exit_code == 1
    assert result.ended == "The endpoint failed in the middle of the reply."
    assert [(row.key, len(row.calls), row.wanted) for row in result.rows] == [
        ("first", 1, 1),
        ("short", 1, 2),
    ]


async def measure_until_stopped(endpoint: ScriptedEndpoint, stop: asyncio.Event) -> BenchResult:
    """Measure until the first of two short answers has come."""

    def step(task: str, done: int, total: int) -> None:
        if task == TWO_SHORT_ANSWERS.label and done == 1:
            endpoint.hold()
            stop.set()

    result = await run_module.run(
        EndpointAddress("sim"), DirectOptions((TWO_SHORT_ANSWERS,)), stop, step, endpoint
    )
    endpoint.release()
    return result


async def test_answers_after_the_last_reading_of_the_counters_are_not_counted_as_others() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    result = await measure_until_stopped(endpoint, asyncio.Event())
    counters = dict(result.conditions)["server's own counters"]
    assert counters.startswith("2 requests ended there, all of them ours")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, "requests are not counted, so whether others used it is unknown"),
        (9, 1, "they began anew meanwhile, so whether others used it is unknown"),
        (1, 3, "2 requests ended there, 3 answers are ours: there is another server behind this address"),
        (1, 4, "3 requests ended there, all of them ours"),
        (1, 5, "4 requests ended there, 3 answers are ours: others used it, too"),
    ],
)
def test_what_the_counters_say_of_others(before: int | None, after: int | None, expected: str) -> None:
    measurements = direct.EndpointMeasurements(
        counters_before=ServerCounters(requests=before),
        counters_after=ServerCounters(requests=after),
        calls_at_counters=3,
    )
    target = BenchTarget("http://gpu/v1", None, "m", None, "0.33.0")
    conditions = dict(describe_conditions(target, measurements, datetime.now(UTC)))
    assert conditions["server's own counters"] == f"{expected}; no diffusion counters"


def test_what_the_admin_says_and_what_makes_figures_doubtful_are_among_the_conditions() -> None:
    target = BenchTarget("http://gpu/v1", None, "m", None, "0.33.0")
    measurements = direct.EndpointMeasurements()
    started_at = datetime.now(UTC)
    busy = machine.count_cores() + 1.0
    first, *rest = describe_conditions(
        target, measurements, started_at, note="GB10, NVFP4", loads=(0.1, busy)
    )
    assert first == (
        "WARNING",
        f"this machine was busy (load {busy:.1f}): seconds may be a tenth too long, or more",
    )
    assert dict(rest)["hardware of the server"] == "GB10, NVFP4"
    calm = dict(describe_conditions(target, measurements, started_at, loads=(0.1, None)))
    assert "WARNING" not in calm


async def test_a_dead_endpoint_is_reported_before_anything_is_measured() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    endpoint.inject_fault("busy", times=None)
    result = await measure(endpoint)
    assert (result.rows, result.exit_code) == ((), 1)
    assert result.ended is not None
    assert result.ended.startswith("The endpoint is busy or not ready.")
    assert "currently busy and cannot accept new requests" in result.ended


async def test_ctrl_c_keeps_what_is_done() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    stop = asyncio.Event()
    result = await measure_until_stopped(endpoint, stop)
    assert (result.ended, result.exit_code) == (STOPPED_BY_HAND, 130)
    assert [(row.key, len(row.calls)) for row in result.rows] == [("first", 1), ("short", 1)]
    endpoint.hold()
    nothing_yet = await run_module.run(
        EndpointAddress("sim"), DirectOptions((TWO_SHORT_ANSWERS,)), stop, ignore_progress, endpoint
    )
    endpoint.release()
    assert nothing_yet.rows == ()


async def test_a_server_without_usage_leaves_tokens_unknown() -> None:
    endpoint = build_bench_endpoint(Timing.instant())
    endpoint.inject_fault("no_usage", times=None)
    result = await measure(
        endpoint, DirectOptions((TWO_SHORT_ANSWERS,), include_whole=False, include_tools=False)
    )
    row = rows_by_key(result)["short streamed"]
    assert (row.output_tokens, row.canvases, row.seconds_per_canvas, row.tokens_per_second) == (None,) * 4
    assert "sent none with 3 of 3 answers" in dict(result.conditions)["usage"]
    assert "not seen" in dict(result.conditions)["flags known"]


async def test_a_hosted_model_is_called_in_the_common_protocol_and_reported_to_write_no_canvases() -> None:
    endpoint = build_bench_endpoint(Timing.instant(), profile=ServerProfile.hosted_api())
    result = await measure(endpoint, DirectOptions((TWO_SHORT_ANSWERS,), include_tools=True, quick=True))
    assert result.rows[0].warm == "unknown"
    assert result.rows[0].thinking == direct.THINKING_SERVER_DEFAULT
    assert {case.thinking for case in result.tools} == {direct.THINKING_SERVER_DEFAULT}
    conditions = dict(result.conditions)
    assert "this writes token by token" in conditions["usage"]
    shown = "\n".join(line for line in output.format_markdown(result) if "SIMULATION" not in line)
    assert "tok/s" in shown
    ours = shown.partition("## What others")[0].lower()
    assert "canvas" not in ours.replace("canvasgram", "")
    assert conditions["server"].startswith("no vLLM")
    assert conditions["server's own counters"].startswith("not readable")
    assert all("chat_template_kwargs" not in request.body for request in endpoint.requests)


async def test_other_users_of_the_endpoint_are_reported() -> None:
    endpoint = build_bench_endpoint(Timing.instant())

    def step(task: str, done: int, total: int) -> None:
        endpoint.engine.metrics.finished["stop"] += task == TWO_SHORT_ANSWERS.label and done == 1

    async with serve(endpoint.app) as url:
        options = DirectOptions((TWO_SHORT_ANSWERS,), include_whole=False, include_tools=False)
        result = await run_module.run(EndpointAddress(url), options, asyncio.Event(), step)
    conditions = dict(result.conditions)
    assert "SIMULATION" not in conditions
    expected = "5 requests ended there, 4 answers are ours: others used it, too"
    assert conditions["server's own counters"].startswith(expected)


async def test_a_server_that_is_no_diffusion_model_has_no_steps() -> None:
    endpoint = ScriptedEndpoint(
        profile=replace(ServerProfile(), diffusion_checks=False), brain=simulated.answer_prompt
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
        await run_module.run(
            EndpointAddress("http://127.0.0.1:9"), DirectOptions(), asyncio.Event(), ignore_progress
        )
    with pytest.raises(SettingsRefused, match=r"^--endpoint must be a web address"):
        await run_module.run(EndpointAddress("nonsense"), DirectOptions(), asyncio.Event(), ignore_progress)
    endpoint = build_bench_endpoint(Timing.instant(), api_key="secret")
    async with serve(endpoint.app) as url:
        with pytest.raises(KeyRefused, match="wants a key"):
            await run_module.run(EndpointAddress(url), DirectOptions(), asyncio.Event(), ignore_progress)


def test_prompts_of_protocols_are_distinct() -> None:
    prompts: set[ProtocolPrompt] = {
        prompt for protocol in PROTOCOLS for prompt in protocol.prompts if protocol.key != "lengths"
    }
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_bars_are_shown_on_a_terminal_only() -> None:
    for terminal in (True, False):
        screen = io.StringIO()
        with progress.progress_bars(Console(file=screen, force_terminal=terminal, width=100)) as step:
            step("long answers", 0, 4)
            step("long answers", 4, 4)
        assert ("long answers" in screen.getvalue()) == terminal
        assert ("4/4" in screen.getvalue()) == terminal


def test_a_bar_at_work_is_not_red() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=100, no_color=False)
    with progress.progress_bars(console) as step:
        step("long answers", 2, 4)
    assert "\x1b[36m━" in screen.getvalue()
    assert not re.search(r"\x1b\[(?:\d+;)*[39]1m", screen.getvalue())


def test_the_commands_print_the_result_and_exit_with_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    async def half(*_: object, **__: object) -> BenchResult:
        return BenchResult((), (("date", "today"),), ended=STOPPED_BY_HAND)

    monkeypatch.setattr(run_module, "run", half)
    monkeypatch.setattr(run_module, "run_gateway", half)
    for command in ("direct", "gateway"):
        done = CliRunner().invoke(cli, ["bench", command, "--out", str(tmp_path / command), "--json"])
        assert done.exit_code == 130
        assert json.loads(done.stdout)["ended"] == STOPPED_BY_HAND
        assert "written: " in done.stderr
        plain = CliRunner().invoke(cli, ["bench", command, "--endpoint", "http://gpu:8000/v1", "--quick"])
        assert plain.stdout.startswith("NOT WHOLE: It was stopped by hand.")


@pytest.mark.parametrize("server", ["mlx-vlm", "SGLang"])
async def test_another_server_is_asked_as_the_gateway_asks_it(server: OtherServer) -> None:
    endpoint = ScriptedEndpoint(profile=ServerProfile.of_server(server), brain=simulated.answer_prompt)
    result = await measure(endpoint, DirectOptions((TWO_SHORT_ANSWERS,), quick=True))
    assert [(score.thinking, score.right) for score in result.tools] == [("off", 2), ("on", 2)]
    assert [record.thinking for record in endpoint.requests] == [False] * 6 + [True] * 2
    assert dict(result.conditions)["server"].startswith(f"{server}: asked as it understands")
    assert not any("repetition_detection" in record.body for record in endpoint.requests)
