"""`bench direct`: the published protocols on an endpoint, without the gateway. Builds rows; prints nothing.

What is measured is kept when the run is stopped or the endpoint fails.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from bot.bench.endpoint import tool_calls
from bot.bench.endpoint.canvas_sweep import CanvasLimits, LimitedSeconds
from bot.bench.endpoint.client import BenchClient, BenchTarget, build_request, open_client
from bot.bench.endpoint.protocols import (
    FIRST_REQUEST,
    LONG_PROMPTS,
    PROTOCOLS,
    SWEEP_PROTOCOLS,
    BenchProtocol,
    ProtocolPrompt,
    select_protocols,
)
from bot.bench.endpoint.result import (
    BenchResult,
    MeasuredCall,
    MeasuredRow,
    ServerCounts,
    ToolCallScore,
    Warmth,
)
from bot.bench.harness.progress import ProgressCallback
from bot.canvases import CANVAS_TOKENS
from bot.errors import CallFailed, CanvasgramError
from bot.llm import server_api
from bot.llm.diagnostics import parse_release
from bot.llm.dialect import VLLM
from bot.llm.server_api import ServerCounters

KNOWS_LIMITS_SINCE = (0, 32)
THINKING_OFF = "off"
THINKING_ON = "on"
THINKING_SERVER_DEFAULT = "its own choice"


@dataclass(slots=True)
class EndpointMeasurements:
    """What has been measured so far.

    `counters_before` and `counters_after` are the server's counters, first and last; `calls_at_counters` is
    `call_count`, the answers so far, when they were last read.
    `has_timings` and `has_cached_tokens`: whether any answer came with the server's timings and cached
    tokens.
    """

    rows: list[MeasuredRow] = field(default_factory=list)
    tool_scores: list[ToolCallScore] = field(default_factory=list)
    sweep: list[LimitedSeconds] = field(default_factory=list)
    stop_reason: str | None = None
    counters_before: ServerCounters | None = None
    counters_after: ServerCounters | None = None
    call_count: int = 0
    calls_at_counters: int = 0
    has_timings: bool = False
    has_cached_tokens: bool = False


@dataclass(frozen=True, slots=True)
class DirectOptions:
    """What is measured: `protocols` streamed.

    `include_whole`: also as whole replies; `include_tools`: also single tool calls.
    `sweep`: instead of all that, these limits of the canvas.
    """

    protocols: Sequence[BenchProtocol] = PROTOCOLS
    quick: bool = False
    include_whole: bool = True
    include_tools: bool = True
    sweep: Sequence[CanvasLimits] = ()


async def measure_endpoint(
    target: BenchTarget,
    options: DirectOptions,
    measurements: EndpointMeasurements,
    on_progress: ProgressCallback,
) -> None:
    """Measure everything into `measurements`; a failing endpoint ends it, and `stop_reason` says how."""
    async with open_client(target) as caller:
        run = _DirectRun(caller, target, measurements, on_progress)
        try:
            measurements.counters_before = await read_counters(target, measurements)
            await run.measure_first_request()
            if options.sweep:
                await _sweep_limits(target, options, measurements, on_progress)
                return
            await run.measure_protocols(options)
            if options.include_tools:
                for thinking in (False, True):
                    await run.measure_tool_calls(thinking=thinking, quick=options.quick)
        except* CallFailed as failed:
            measurements.stop_reason = first_error_text(failed)


async def _sweep_limits(
    target: BenchTarget,
    options: DirectOptions,
    measurements: EndpointMeasurements,
    on_progress: ProgressCallback,
) -> None:
    """Ask the same with each of the limits."""
    is_too_old = (parse_release(target.version) or KNOWS_LIMITS_SINCE) < KNOWS_LIMITS_SINCE
    if target.dialect is not VLLM or is_too_old or not BenchResult(tuple(measurements.rows), ()).has_canvases:
        measurements.stop_reason = "--widths and --steps need canvases, and vLLM 0.32 or newer."
        return
    for limits in options.sweep:
        limited = replace(target, dialect=replace(VLLM, canvas_limits=limits.fields))
        async with open_client(limited) as client:
            run = _DirectRun(client, limited, measurements, on_progress, limits)
            await run.warm_up()
            await run.measure_protocols(replace(options, protocols=SWEEP_PROTOCOLS, include_whole=False))
            await run.measure_tool_calls(thinking=False, quick=options.quick)
        *_, short, prose, code = (row.median_seconds or 0 for row in measurements.rows)
        call = median(call.seconds for call in measurements.tool_scores[-1].calls)
        measurements.sweep.append(LimitedSeconds(limits.label, short + call, prose + code))


async def run_until_stopped(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Run `work`, or cancel it when `stop` is set; whether it ran to its end."""
    async with asyncio.TaskGroup() as tasks:
        work_task = tasks.create_task(work)
        stop_task = tasks.create_task(stop.wait())
        await asyncio.wait({work_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        has_ended = work_task.done()
        work_task.cancel()
        stop_task.cancel()
    return has_ended


async def read_counters(target: BenchTarget, measurements: EndpointMeasurements) -> ServerCounters | None:
    """The server's counters now, also stored in `measurements`; None where they cannot be read."""
    measurements.counters_after = await server_api.fetch_counters(target.url, target.api_key)
    measurements.calls_at_counters = measurements.call_count
    return measurements.counters_after


class _DirectRun:
    """One run against one endpoint."""

    def __init__(
        self,
        client: BenchClient,
        target: BenchTarget,
        measurements: EndpointMeasurements,
        on_progress: ProgressCallback,
        limits: CanvasLimits | None = None,
    ) -> None:
        self._client = client
        self._target = target
        self._measurements = measurements
        self._on_progress = on_progress
        self._limits = limits
        self._thinking_label = THINKING_OFF if target.dialect.thinking else THINKING_SERVER_DEFAULT

    async def measure_first_request(self) -> None:
        """The first request, in a row of its own; then the model is warm."""
        counters = self._measurements.counters_before
        served_requests = counters.requests if counters else None
        warm: Warmth = "unknown"
        if served_requests is not None:
            warm = "warm" if served_requests else "cold"
        await self._client.open_connection()
        await self._measure_row(FIRST_REQUEST, streamed=True, warm=warm)
        await self.warm_up()

    async def warm_up(self) -> None:
        """One answer that is dropped."""
        self._on_progress("warming up", 0, 1)
        await self._ask(LONG_PROMPTS[0], streamed=True)
        self._on_progress("warming up", 1, 1)

    async def measure_protocols(self, options: DirectOptions) -> None:
        """Every protocol, streamed and whole."""
        for protocol in select_protocols(options.protocols, quick=options.quick):
            await self._measure_row(protocol, streamed=True)
            if options.include_whole and not options.quick and protocol.in_quick_run:
                await self._measure_row(protocol, streamed=False)

    async def measure_tool_calls(self, *, thinking: bool, quick: bool) -> None:
        """Single calls that need a tool, with thinking or without."""
        toolbox = tool_calls.build_toolbox()
        cases = tool_calls.select_cases(quick=quick)
        thinking_label = THINKING_SERVER_DEFAULT
        if self._target.dialect.thinking:
            thinking_label = THINKING_ON if thinking else THINKING_OFF
        if self._limits:
            thinking_label = f"{thinking_label}, {self._limits.label}"
        verdicts: list[tool_calls.ToolCallVerdict] = []
        calls: list[MeasuredCall] = []
        try:
            for case in cases:
                self._on_progress(f"tools, thinking {thinking_label}", len(calls), len(cases))
                request = tool_calls.build_tool_request(case, toolbox, thinking=thinking)
                reply, call = await self._client.call(request, streamed=True)
                verdicts.append(tool_calls.judge_reply(reply, case, toolbox.tools))
                calls.append(self._count_call(call))
            self._on_progress(f"tools, thinking {thinking_label}", len(calls), len(cases))
            await read_counters(self._target, self._measurements)
        finally:
            right = verdicts.count("right")
            mended = verdicts.count("mended")
            if calls:
                self._measurements.tool_scores.append(
                    ToolCallScore(thinking_label, len(calls), right, right + mended, tuple(calls))
                )

    async def _measure_row(self, protocol: BenchProtocol, *, streamed: bool, warm: Warmth = "warm") -> None:
        calls: list[MeasuredCall] = []
        before = await read_counters(self._target, self._measurements)
        started_at = monotonic()
        try:
            await self._ask_all(protocol, calls, streamed=streamed)
        finally:
            row = MeasuredRow(
                key=protocol.key,
                label=f"{protocol.key}, {self._limits.label}" if self._limits else protocol.label,
                way="limited" if self._limits else "direct",
                streamed=streamed,
                thinking=self._thinking_label,
                at_once=protocol.at_once,
                warm=warm,
                wanted=len(protocol.prompts),
                calls=tuple(calls),
                wall=monotonic() - started_at,
            )
            if calls:
                self._measurements.rows.append(row)
        after = await read_counters(self._target, self._measurements)
        width = self._limits.width if self._limits else None
        self._measurements.rows[-1] = replace(row, counted=subtract_counters(before, after, width))

    async def _ask_all(self, protocol: BenchProtocol, calls: list[MeasuredCall], *, streamed: bool) -> None:
        """Send all prompts of a protocol, and append to `calls` as the answers come."""
        label = protocol.label
        if not streamed:
            label = f"{label}, not streamed"
        waiting = list(reversed(protocol.prompts))

        async def ask_next() -> None:
            while waiting:
                calls.append(await self._ask(waiting.pop(), streamed=streamed))
                self._on_progress(label, len(calls), len(protocol.prompts))

        self._on_progress(label, 0, len(protocol.prompts))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(protocol.at_once):
                tasks.create_task(ask_next())

    async def _ask(self, prompt: ProtocolPrompt, *, streamed: bool) -> MeasuredCall:
        reply, call = await self._client.call(
            build_request(prompt.text, prompt.max_tokens), streamed=streamed
        )
        self._measurements.has_timings |= reply.server_timings is not None
        self._measurements.has_cached_tokens |= reply.usage.cached_tokens is not None
        return self._count_call(call)

    def _count_call(self, call: MeasuredCall) -> MeasuredCall:
        self._measurements.call_count += 1
        return replace(call, estimated=self._limits.count_canvases(call)) if self._limits else call


def first_error_text(errors: BaseExceptionGroup[CanvasgramError]) -> str:
    """The message of the first error in a group."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


def subtract_counters(
    before: ServerCounters | None, after: ServerCounters | None, width: int | None = None
) -> ServerCounts | None:
    """What the server counted between two readings, in canvases of `width` tokens (None: CANVAS_TOKENS).

    None where it does not count canvases, or its counters were reset.
    """
    if (
        before is None
        or after is None
        or None in (before.steps, before.committed, after.steps, after.committed)
    ):
        return None
    steps = (after.steps or 0) - (before.steps or 0)
    canvases = ((after.committed or 0) - (before.committed or 0)) / (width or CANVAS_TOKENS)
    if steps < 0 or canvases <= 0:
        return None
    return ServerCounts(canvases, steps / canvases - 1)
