"""What the figures of a run depend on, in words: endpoint, flags as far as known, what was sent, this
machine.
"""

import importlib.metadata
import platform
from collections.abc import Iterator
from datetime import UTC, datetime

from bot.bench.endpoint.client import Target
from bot.bench.endpoint.direct import Taken, counted
from bot.bench.harness import machine

SAMPLING = "no temperature, seed or penalty is sent: today's servers refuse them for this model, 0 as well"


def conditions(
    target: Target, taken: Taken, began: datetime, *, simulated: str | None = None
) -> Iterator[tuple[str, str]]:
    """Name and text of each; `simulated` says so first."""
    if simulated is not None:
        yield "SIMULATION", simulated
    yield "date", f"{began:%Y-%m-%d %H:%M} to {datetime.now(UTC):%H:%M} UTC"
    if target.context is None:
        context = "unknown"
    else:
        context = f"{target.context:,} tokens"
    yield "endpoint", f"{target.url}, model {target.model}, context {context}"
    yield "server", _server(target)
    yield "flags known", "; ".join(_flags(taken))
    yield "flags unknown", "precision, --max-num-seqs, attention, scheduling: the server does not tell"
    yield "sampling", SAMPLING
    yield "usage", _usage(taken)
    yield "server's own counters", _counters(taken)
    yield (
        "client",
        f"canvasgram {importlib.metadata.version('canvasgram')}, Python {platform.python_version()}",
    )
    yield "machine of the client", f"{platform.system()} {platform.machine()}, load {machine.load_average()}"


def _server(target: Target) -> str:
    if target.version is None:
        return "no vLLM that tells its version: asked in the common protocol, so thinking is its own choice"
    return f"vLLM {target.version}"


def _flags(taken: Taken) -> Iterator[str]:
    told = {True: "in effect", False: "not seen"}
    yield f"--enable-prompt-tokens-details {told[taken.details]}"
    yield f"--enable-per-request-metrics {told[taken.timings]}"
    yield f"/metrics {'readable' if taken.after else 'not readable'}"


def _usage(taken: Taken) -> str:
    calls = [call for row in taken.rows for call in row.calls]
    silent = sum(call.output is None for call in calls)
    if silent:
        return f"the server sent none with {silent} of {len(calls)} answers: their tokens, canvases and rates are unknown"
    finer = sum(call.blocks > (call.canvases or 0) for call in calls)
    if finer:
        return f"sent with every answer; but {finer} came in more blocks than canvases: this does not write in canvases"
    return "sent with every answer"


def _counters(taken: Taken) -> str:
    if taken.before is None or taken.after is None:
        return "not readable: steps a canvas are unknown, and whether others used the endpoint"
    others = _others(taken.before.requests, taken.after.requests, taken.ours)
    all_of_it = counted(taken.before, taken.after)
    if all_of_it is None:
        return f"{others}; no diffusion counters"
    steps = "unknown" if all_of_it.steps is None else f"{all_of_it.steps:.1f}"
    return f"{others}; {steps} denoising steps a canvas, over {all_of_it.canvases:.0f} canvases"


def _others(before: int | None, after: int | None, ours: int) -> str:
    if before is None or after is None:
        return "requests are not counted, so whether others used it is unknown"
    if after < before:
        return "they began anew meanwhile, so whether others used it is unknown"
    told = f"{after - before} requests ended there"
    if after - before == ours:
        return f"{told}, all of them ours"
    if after - before > ours:
        why = "others used it, too"
    else:
        why = "there is another server behind this address"
    return f"{told}, {ours} answers are ours: {why}"
