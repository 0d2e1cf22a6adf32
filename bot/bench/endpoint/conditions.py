"""What the figures of a run depend on, in words.

The endpoint, its flags as far as known, what was sent, and this machine.
"""

import importlib.metadata
import platform
from collections.abc import Iterator
from datetime import UTC, datetime

from bot.bench.endpoint import tool_calls
from bot.bench.endpoint.client import BenchTarget
from bot.bench.endpoint.direct import EndpointMeasurements, subtract_counters
from bot.bench.endpoint.protocols import MAX_ANSWER_TOKENS
from bot.bench.harness import machine
from bot.llm.dialect import VLLM

UNKNOWN_VERSION = "of a version that it does not tell"
SAMPLING_NOTE = (
    "no temperature, seed or penalty is sent: today's servers refuse them for this model, 0 as well"
)


def describe_conditions(
    target: BenchTarget,
    measurements: EndpointMeasurements,
    started_at: datetime,
    *,
    simulated: str | None = None,
    note: str | None = None,
    loads: tuple[float | None, ...] = (),
) -> Iterator[tuple[str, str]]:
    """Name and text of each condition; what makes the figures doubtful comes first.

    `simulated`: where the endpoint is; `note`: what the admin says of it; `loads`: of this machine, before
    and after.
    """
    if simulated is not None:
        yield "SIMULATION", simulated
    busiest = max((load for load in loads if load is not None), default=0.0)
    if busiest > machine.count_cores():
        yield (
            "WARNING",
            f"this machine was busy (load {busiest:.1f}): seconds may be a tenth too long, or more",
        )
    yield "date", f"{started_at:%Y-%m-%d %H:%M} to {datetime.now(UTC):%H:%M} UTC"
    context = "unknown"
    if target.context_tokens is not None:
        context = f"{target.context_tokens:,} tokens"
    yield "endpoint", f"{target.url}, model {target.model}, context {context}"
    yield "server", _describe_server(target)
    yield "flags known", "; ".join(_describe_flags(measurements))
    yield "flags unknown", "precision, --max-num-seqs, attention, scheduling: the server does not tell"
    yield "hardware of the server", note or "unknown: the server does not tell; --note can"
    tools = f"tool calls {tool_calls.MAX_TOKENS:,}"
    limits = f"{MAX_ANSWER_TOKENS:,}, but where answers are cut at a length; {tools}"
    yield "max_tokens", limits
    yield "sampling", SAMPLING_NOTE
    yield "usage", _describe_usage(measurements)
    yield "server's own counters", _describe_counters(measurements)
    yield (
        "client",
        f"canvasgram {importlib.metadata.version('canvasgram')}, Python {platform.python_version()}",
    )
    yield "machine of the client", f"{platform.system()} {platform.machine()}, load {machine.describe_load()}"


def _describe_server(target: BenchTarget) -> str:
    if target.dialect is VLLM:
        return f"vLLM {target.version or UNKNOWN_VERSION}"
    if target.dialect.thinking:
        return f"{target.dialect.server}: asked as it understands by its sources"
    return "no vLLM that tells its version: asked in the common protocol, so thinking is its own choice"


def _describe_flags(measurements: EndpointMeasurements) -> Iterator[str]:
    words = {True: "in effect", False: "not seen"}
    yield f"--enable-prompt-tokens-details {words[measurements.has_cached_tokens]}"
    yield f"--enable-per-request-metrics {words[measurements.has_timings]}"
    metrics_state = "readable" if measurements.counters_after else "not readable"
    yield f"/metrics {metrics_state}"


def _describe_usage(measurements: EndpointMeasurements) -> str:
    calls = [call for row in measurements.rows for call in row.calls]
    silent = sum(call.output is None for call in calls)
    if silent:
        return (
            f"the server sent none with {silent} of {len(calls)} answers: their tokens and rates are unknown"
        )
    finer = sum(call.blocks > (call.canvases or 0) for call in calls)
    if finer:
        return (
            f"sent with every answer; {finer} came in more blocks than one for each 256 tokens: "
            "this writes token by token"
        )
    return "sent with every answer"


def _describe_counters(measurements: EndpointMeasurements) -> str:
    if measurements.counters_before is None or measurements.counters_after is None:
        return "not readable: denoising steps are unknown, and whether others used the endpoint"
    other_requests = _describe_other_requests(
        measurements.counters_before.requests,
        measurements.counters_after.requests,
        measurements.calls_at_counters,
    )
    if measurements.sweep:  # of canvases of several widths
        return other_requests
    counts = subtract_counters(measurements.counters_before, measurements.counters_after)
    if counts is None:
        return f"{other_requests}; no diffusion counters"
    steps = "unknown" if counts.steps is None else f"{counts.steps:.1f}"
    return f"{other_requests}; {steps} denoising steps a canvas, over {counts.canvases:.0f} canvases"


def _describe_other_requests(before: int | None, after: int | None, own_requests: int) -> str:
    if before is None or after is None:
        return "requests are not counted, so whether others used it is unknown"
    if after < before:
        return "they began anew meanwhile, so whether others used it is unknown"
    counted = f"{after - before} requests ended there"
    if after - before == own_requests:
        return f"{counted}, all of them ours"
    if after - before > own_requests:
        reason = "others used it, too"
    else:
        reason = "there is another server behind this address"
    return f"{counted}, {own_requests} answers are ours: {reason}"
