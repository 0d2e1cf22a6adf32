"""The demo's newest turn step by step: what the gateway reported, and the times without one. Pure."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from bot.canvases import OutputUnit
from bot.db.usage.turn_steps import ToolStep, TurnSteps
from bot.demo.gateway_process import Outage
from bot.usage.intervals import INTERVAL_LABELS, Span, to_exclusive_spans
from bot.usage.palette import TIME_KINDS

_MIN_SECONDS = 0.001  # of a step that is shown

Json = dict[str, Any]


def build_progress(
    report: Json, turn: TurnSteps | None, outages: Sequence[Outage], now: float, unit: OutputUnit
) -> Json:
    """The steps of a turn as the page reads them, in seconds since its begin; canvases where `unit` has any.

    `turn` has what is stored of it, None: nothing is; once that has its account, the turn is over.
    """
    received_at: float = report["received_at"]
    spans = [Span(*span) for span in report["spans"]]
    tools = turn.tools if turn is not None else ()
    settled_at = _find_end(turn)
    begin = received_at
    end = max([received_at, *(span.end for span in spans)])
    if turn is not None and settled_at is not None:
        begin = settled_at - turn.account["whole"]
        end = settled_at
    elif outages and all(span.begin < outages[-1].killed_at for span in spans):
        end = now  # nothing is known yet of the process after it
    downtimes = [_to_downtime(outage, received_at, spans, end) for outage in outages]
    questions = [
        Span("approval wait", tool.asked_at, tool.answered_at or end) for tool in tools if tool.asked_at
    ]
    first_begin = min((span.begin for span in spans), default=end)
    spans += [*downtimes, *questions, Span("intake", received_at, first_begin)]
    steps: list[tuple[str, Span]] = []
    exclusive_spans = to_exclusive_spans(begin, end, spans)
    block_times = report["block_times"] if unit.has_canvases else None
    for name, span in _name_steps(exclusive_spans, block_times, tools):
        if span.end - span.begin < _MIN_SECONDS:
            continue
        since = steps.pop()[1].begin if steps and steps[-1][0] == name else span.begin
        steps.append((name, replace(span, begin=since)))
    return {
        "is_over": settled_at is not None,
        "whole": end - begin,
        "steps": [
            (name, TIME_KINDS[span.kind], span.begin - begin, span.end - begin) for name, span in steps
        ],
    }


def _find_end(turn: TurnSteps | None) -> float | None:
    """When a turn was delivered; None: it is not, or has no account yet."""
    if turn is None or not turn.account:
        return None
    return turn.settled_at


def _to_downtime(outage: Outage, received_at: float, spans: Sequence[Span], end: float) -> Span:
    """The time without a gateway: from the last that was told before it."""
    killed_at = outage.killed_at
    if killed_at < received_at:
        return Span("down", killed_at, received_at)
    begin = max((span.end for span in spans if span.begin < killed_at), default=killed_at)
    return Span("down", begin, min((span.begin for span in spans if span.begin >= killed_at), default=end))


def _name_steps(
    spans: Sequence[Span], block_times: Sequence[float] | None, tools: Sequence[ToolStep]
) -> Iterator[tuple[str, Span]]:
    """Each span with its name, those of canvases cut where text came; `block_times` None: there are none."""
    canvas = 0
    call_begin = 0.0
    for span in spans:
        label = INTERVAL_LABELS[span.kind]
        cuts: list[float] = []
        if span.kind == "tools":
            label = name_tools([tool for tool in tools if _has_run_in(tool, span)]) or label
        if block_times is None:
            yield label, span
            continue
        if span.kind == "first canvas":
            call_begin = span.begin
        # The first text of a call ended its first canvas, and may have been shown a little later.
        texts = [moment for moment in block_times if call_begin < moment < span.end]
        if span.kind == "further canvases" and texts:
            cuts = texts[1:]
        elif span.kind != "first canvas":
            yield label, span
            continue
        for begin, end in pairwise([span.begin, *cuts, span.end]):
            canvas += 1
            yield f"canvas {canvas}", Span(span.kind, begin, end)


def _has_run_in(tool: ToolStep, span: Span) -> bool:
    return tool.began_at is not None and tool.began_at < span.end and (tool.ended_at or span.end) > span.begin


def name_tools(tools: Sequence[ToolStep]) -> str:
    """The tools that were called, each once; empty if none was."""
    counts = Counter(tool.name for tool in tools)
    return ", ".join(name if count == 1 else f"{name} × {count}" for name, count in counts.items())


def describe_gateway(pid: int | None, outages: Sequence[Outage], turn: TurnSteps | None) -> str:
    """What became of the gateway the last time it was killed, and of the newest turn."""
    if not outages:
        return f"It is process {pid}. Kill it in the middle of an answer: the demo starts it again."
    outage = outages[-1]
    killed = f"Killed at {time.strftime('%H:%M:%S', time.localtime(outage.killed_at))}."
    if outage.seconds is None:
        return f"{killed} The demo starts it again …"
    returned = f"{killed} It came back after {outage.seconds:.1f} s"
    settled_at = _find_end(turn)
    if turn is None or (settled_at is not None and settled_at < outage.killed_at):
        return f"{returned}; no answer was under way."
    if settled_at is None:
        return f"{returned}, and the answer goes on."
    if all(part.state == "done" for part in turn.parts):
        return f"{returned}; nothing was lost."
    return f"{returned}. It cannot know whether a message arrived, so the chat was told."
