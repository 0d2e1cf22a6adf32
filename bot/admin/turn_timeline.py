"""A turn as charts: its exclusive intervals, which add up to the whole, and what happened when. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import htpy as h

from bot.admin.components import cut, format_duration, is_fault
from bot.admin.svg_chart import (
    FAULT_MARK,
    Axis,
    Bar,
    BarKind,
    choose_step,
    draw_chart,
    show_legend,
    show_swatch,
)
from bot.db.usage.turn_steps import CallStep, PartStep, ToolStep, TurnSteps
from bot.domain import MAX_BLOCK_TIMES
from bot.usage.figures import UNKNOWN, format_seconds, format_share
from bot.usage.intervals import INTERVAL_LABELS, list_intervals
from bot.usage.palette import TIME_KIND_NAMES, TIME_KINDS, TimeKind
from bot.usage.refusals import describe_tool_outcome

MAX_ROWS = 44  # of four shapes each: with deliveries and axis below MAX_SHAPES
MAX_PARTS = 10
MAX_NAMED = 4  # kinds of time that a turn's heading has
MIN_NAMED_SHARE = 0.05
_ROUNDING_SECONDS = 0.0005
_BLOCKS_NOTE = (
    f"Lines are blocks, of each call the first {MAX_BLOCK_TIMES}; of older calls only the last is known."
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A call or a tool call with its bars, whose row is still to be chosen."""

    label: str
    bars: tuple[Bar, ...]


def show_intervals(turn: TurnSteps) -> h.Node:
    """The intervals side by side, and the sum as a line."""
    if not turn.account:
        return h.p(".nothing")["Not known: the turn has no account (yet)."]
    bars = []
    begin = 0.0
    for kind, seconds in list_intervals(turn.account):
        duration = format_duration(seconds)
        label = INTERVAL_LABELS[kind]
        texts = (f"{label} {duration}", label, duration)
        bars.append(Bar(0, TIME_KINDS[kind], begin, begin + seconds, f"{label}: {duration}", texts=texts))
        begin += seconds
    whole = turn.account["whole"]
    chart = draw_chart("Where the seconds went", ["whole"], bars, _build_axis(0.0, max(whole, begin)))
    return chart, h.p(".sum")[_show_sum(turn.account)]


def _show_sum(account: Mapping[str, float]) -> Iterator[h.Node]:
    missing = account["whole"]
    for number, (kind, seconds) in enumerate(list_intervals(account)):
        sign = " + " if number else ""
        text = f"{INTERVAL_LABELS[kind]} {format_seconds(seconds)} s"
        yield sign, h.span(".nowrap")[show_swatch(TIME_KINDS[kind]), text]
        missing -= seconds
    if abs(missing) > _ROUNDING_SECONDS:
        yield f" + not measured {format_seconds(missing)} s"
    yield " = ", h.strong(".nowrap")[f"{format_seconds(account['whole'])} s"], ", the whole."


def describe_longest(turn: TurnSteps) -> str:
    """What took longest, such as `5.0 s: 54 % waits (seat wait), 33 % model`; empty if not known."""
    whole = turn.account.get("whole")
    if not whole:
        return ""
    sums: defaultdict[str, float] = defaultdict(float)
    for kind, seconds in list_intervals(turn.account):
        sums[_name_kind(TIME_KINDS[kind], turn)] += seconds
    longest = sorted(sums.items(), key=lambda kind: -kind[1])
    shares = [(name, seconds / whole) for name, seconds in longest[:MAX_NAMED]]
    parts = [
        f"{format_share(share, 1, decimals=0)} {name}" for name, share in shares if share >= MIN_NAMED_SHARE
    ]
    return f"{format_duration(whole)}: {', '.join(parts)}"


def _name_kind(kind: TimeKind, turn: TurnSteps) -> str:
    """A kind of time as a word; tools and waits with the name of what took more than half of their time."""
    if kind in {"canvas", "more"}:
        return "model"
    sums = _sum_by_name(kind, turn)
    longest = max(sums, key=sums.__getitem__, default="")
    if not sums or sums[longest] <= sum(sums.values()) / 2:
        return TIME_KIND_NAMES[kind]
    share = "mostly " if len(sums) > 1 else ""
    return f"{TIME_KIND_NAMES[kind]} ({share}{cut(longest, 40)})"


def _sum_by_name(kind: TimeKind, turn: TurnSteps) -> Mapping[str, float]:
    """The seconds of each tool, or of each interval of waits; nothing for other kinds."""
    sums: defaultdict[str, float] = defaultdict(float)
    if kind == "tool":
        for tool in turn.tools:
            if tool.began_at is not None and tool.ended_at is not None:
                sums[tool.name] += tool.ended_at - tool.began_at
    if kind == "wait":
        for interval, seconds in list_intervals(turn.account):
            if TIME_KINDS[interval] == kind:
                sums[INTERVAL_LABELS[interval]] += seconds
    return sums


def show_timeline(turn: TurnSteps, now: float) -> h.Node:
    """A row for each model call and tool call on one axis of time, and one for deliveries."""
    end = _find_end(turn, now)
    entries = sorted(_list_entries(turn, end), key=lambda entry: entry.bars[0].begin)
    note: h.Node = None
    if len(entries) > MAX_ROWS:
        note = h.p[f"The first {MAX_ROWS} of {len(entries):,} calls. The tables below have each."]
        entries = entries[:MAX_ROWS]
    rows = [entry.label for entry in entries]
    bars = [_move(bar, row) for row, entry in enumerate(entries) for bar in entry.bars]
    rows.insert(0, "whole turn")
    bars = [*_list_turn_bars(turn, end), *(_move(bar, bar.row + 1) for bar in bars)]
    if turn.parts:
        rows.append("delivery")
        bars += [_move(bar, len(rows) - 1) for bar in _list_part_bars(turn, end)]
    axis = _build_axis(turn.received_at, end)
    legend = show_legend(
        _LEGEND.items(),
        (bar.kind for bar in bars if not bar.moments),
        any(bar.moments for bar in bars) and _BLOCKS_NOTE,
    )
    return note, draw_chart("What happened when", rows, bars, axis), legend


def _build_axis(begin: float, end: float) -> Axis:
    step = choose_step(end - begin)
    count = int((end - begin) / step)
    moments = (number * step for number in range(1, count + 1))
    ticks = ((begin, "0"), *((begin + moment, format_duration(moment)) for moment in moments))
    return Axis(begin, end, ticks)


def _find_end(turn: TurnSteps, now: float) -> float:
    """The last moment that is known of a turn; `now` if it is not over."""
    if turn.ended_at is None:
        return max(now, turn.began_at)
    times = [turn.ended_at]
    times += [time for call in turn.calls for time in (call.ended_at, call.created_at) if time is not None]
    times += [tool.ended_at for tool in turn.tools if tool.ended_at is not None]
    times += [time for part in turn.parts for time in (part.sent_at, part.done_at) if time is not None]
    return max(times)


def _list_turn_bars(turn: TurnSteps, end: float) -> Iterator[Bar]:
    taken_at = turn.taken_at or turn.began_at
    waited = format_duration(taken_at - turn.received_at)
    yield Bar(0, "wait", turn.received_at, taken_at, f"taken up after {waited} of waiting")
    ending = cut(turn.ending or turn.state)
    yield Bar(0, "frame", taken_at, turn.ended_at or end, f"the turn: {ending}")


def _list_entries(turn: TurnSteps, end: float) -> Iterator[_Entry]:
    for number, call in enumerate(turn.calls, start=1):
        purpose = "model" if call.purpose == "turn" else cut(call.purpose, 10)
        label = f"{purpose}, call {number}"
        yield _Entry(label, tuple(_list_call_bars(call, f"call {number}", turn, end)))
    for tool in turn.tools:
        bars = tuple(_list_tool_bars(tool, turn, end))
        if bars:
            yield _Entry(cut(tool.name, 20), bars)


def _list_call_bars(call: CallStep, name: str, turn: TurnSteps, end: float) -> Iterator[Bar]:
    known = [time for time in (call.seat_at, call.first_block_at, call.last_block_at) if time is not None]
    last = call.ended_at or (end if turn.ended_at is None else max([call.created_at, *known]))
    outcome = (call.outcome or UNKNOWN) if call.ended_at else "has not ended"
    if call.ended_at is None and turn.ended_at is not None:
        outcome = "its end is unknown"
    seat_at = call.seat_at
    if seat_at is None:
        kind: BarKind = "fault" if call.ended_at or turn.ended_at else "wait"
        yield Bar(0, kind, call.created_at, last, f"{name}: no seat; {cut(outcome)}")
        return
    waited = format_duration(seat_at - call.created_at)
    yield Bar(0, "wait", call.created_at, seat_at, f"{name}: waited {waited} for a seat")
    first = call.first_block_at
    if first is None:
        kind = "fault" if is_fault(call.outcome) else "canvas"
        title = f"{name}: no block in {format_duration(last - seat_at)}; {cut(outcome)}"
        yield Bar(0, kind, seat_at, last, title)
        return
    duration = format_duration(first - seat_at)
    texts = (f"first text {duration}", duration)
    yield Bar(0, "canvas", seat_at, first, f"{name}: first text, {duration}", texts=texts)
    blocks = "1 block" if call.blocks == 1 else f"{call.blocks} blocks"
    title = f"{name}: {blocks} until {format_duration(last - turn.received_at)}; {cut(outcome)}"
    kind = "fault" if is_fault(call.outcome) else "more"
    yield Bar(0, kind, first, last, title, texts=(blocks, format_duration(last - first)))
    last_block = call.last_block_at
    if last_block is None or last_block <= first:
        return
    moments = call.block_times or (last_block,)
    seconds = ", ".join(format_seconds(moment - turn.received_at) for moment in moments)
    which = "its last block" if not call.block_times else "its blocks"
    if len(moments) < call.blocks and call.block_times:
        which = f"its first {len(moments)} blocks"
    yield Bar(0, "own", moments[0], moments[-1], f"{name}: {which}, at {seconds} s", moments=moments)


def _list_tool_bars(tool: ToolStep, turn: TurnSteps, end: float) -> Iterator[Bar]:
    name = cut(tool.name, 40)
    until = turn.ended_at or end
    if tool.asked_at is not None:
        answered_at = tool.answered_at or until
        waited = format_duration(answered_at - tool.asked_at)
        title = f"{name}: a person was asked, {cut(tool.answer or 'no answer')} after {waited}"
        yield Bar(0, "wait", tool.asked_at, answered_at, title)
    if tool.began_at is not None:
        ended_at = tool.ended_at or (end if turn.ended_at is None else tool.began_at)
        seconds = "end unknown"
        if tool.ended_at is not None:
            seconds = format_duration(tool.ended_at - tool.began_at)
        kind: BarKind = "fault" if is_fault(tool.outcome) else "tool"
        outcome = describe_tool_outcome(tool.outcome or "no result", tool.refusal)
        yield Bar(0, kind, tool.began_at, ended_at, f"{name}: {cut(outcome)}, {seconds}", texts=(seconds,))


def _list_part_bars(turn: TurnSteps, end: float) -> Iterator[Bar]:
    for number, part in enumerate(turn.parts[:MAX_PARTS], start=1):
        done_at = part.done_at or part.sent_at or end
        kind: BarKind = "delivery" if part.state == "done" else "fault"
        yield Bar(0, kind, part.made_at, done_at, f"message {number}: {_describe_part(part)}")


def _describe_part(part: PartStep) -> str:
    if part.done_at is None:
        return cut(part.state)
    return f"{cut(part.state)}, {format_duration(part.done_at - part.made_at)}"


def _move(bar: Bar, row: int) -> Bar:
    return replace(bar, row=row)


_LEGEND: Mapping[BarKind, str] = {
    "wait": "waits, also for a person",
    "canvas": "first text",
    "more": "further text",
    "tool": "tool",
    "delivery": "delivery",
    "fault": f"failed or lost {FAULT_MARK}",
    "frame": "the turn",
}
