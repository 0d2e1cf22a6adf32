"""A report as records for machines: a flat mapping a group, numbers as numbers, None where something is
unknown. Pure.

A field that a grouping does not tell apart is not there at all.
"""

from collections.abc import Mapping
from typing import TypeAlias

from bot.db.usage.usage_sums import CallSums, TurnSums
from bot.usage.report import KINDS, Asked, Entry, Report, Tools, moment
from bot.usage.tables import notes

Value: TypeAlias = str | int | float | None
Record: TypeAlias = dict[str, Value]


def records(report: Report) -> list[Record]:
    """A record a group, or one of all."""
    return [record(entry, report.question.by or "group") for entry in report.shown]


def whole(report: Report) -> dict[str, object]:
    """Everything: what was asked, the groups, all together, the notes."""
    question = report.question
    scope = question.scope
    return {
        "since": None if scope.since is None else moment(scope.since),
        "until": None if scope.until is None else moment(scope.until),
        "chat": scope.chat,
        "user": scope.user,
        "model": scope.model,
        "by": question.by,
        "percentiles": report.method,
        "all": record(report.whole, "group"),
        "groups": [record(entry, question.by or "group") for entry in report.entries],
        "server": _server(report),
        "notes": list(notes(report)),
    }


def record(entry: Entry, name: str) -> Record:
    """One group."""
    found: Record = {name: entry.label}
    if entry.turns is not None:
        found |= _turns(entry.turns)
    if entry.calls is not None:
        found |= _calls(entry.calls) | {"empty_replies": entry.empty}
        found |= {f"again_{why}": count for why, count in sorted(entry.again.items())}
    if entry.tools is not None:
        found |= _tools(entry.tools)
    if entry.asked is not None:
        found |= _asked(entry.asked)
    for kind, spread in entry.spreads.items():
        found |= {f"{kind}_count": spread.count}
        found |= {f"{kind}_{name}_seconds": getattr(spread, name) for name in ("p50", "p95", "p99")}
    return found


def _calls(calls: CallSums) -> Record:
    return {
        "calls": calls.calls,
        "input_tokens": _known(calls.input, calls.input_known, calls.calls),
        "input_tokens_unknown_calls": calls.calls - calls.input_known,
        "cached_tokens": _known(calls.cached, calls.cached_known, calls.calls),
        "cached_tokens_unknown_calls": calls.calls - calls.cached_known,
        "cached_share": _share(calls.cached, calls.cached_of),
        "output_tokens": _known(calls.output, calls.output_known, calls.calls),
        "output_tokens_unknown_calls": calls.calls - calls.output_known,
        "partial_calls": calls.partial,
        "reasoning_tokens": _known(calls.reasoning, calls.reasoning_known, calls.calls),
        "reasoning_tokens_unknown_calls": calls.calls - calls.reasoning_known,
        "reasoning_share": _share(calls.reasoning, calls.reasoning_of),
        "canvases_estimated": _known(calls.canvases, calls.canvases_known, calls.costing),
        "canvases_unknown_calls": calls.costing - calls.canvases_known,
        "thinking_calls": calls.thinking,
        "thinking_canvases_estimated": calls.thinking_canvases,
        "seat_seconds": round(calls.busy, 6),
        "seat_wait_seconds": round(calls.waited, 6),
        "cut_replies": calls.cut,
        "stopped_calls": calls.cancelled,
        "failed_calls": calls.failed,
    }


def _turns(turns: TurnSums) -> Record:
    counted: Record = {
        "turns": turns.turns,
        "turns_without_account": turns.turns - turns.settled,
        "thinking_turns": turns.thinking,
        "thinking_turns_seconds": _known(turns.thinking_seconds, turns.thinking_settled, turns.thinking),
        "turns_ended_cut": turns.cut,
        "turns_ended_empty": turns.empty,
    }
    took = zip(KINDS, turns.seconds, strict=True)
    return counted | {
        f"{kind}_seconds": _known(seconds, turns.settled, turns.turns) for kind, seconds in took
    }


def _tools(tools: Tools) -> Record:
    outcomes: Mapping[str, int] = {
        f"tool_{why or 'not_ended'}": count for why, count in tools.outcomes.items()
    }
    counted: Record = {"tool_calls": tools.calls, "tool_failures": tools.failed}
    return (
        counted
        | dict(sorted(outcomes.items()))
        | {"tool_seconds": _known(tools.seconds, tools.timed, tools.calls)}
    )


def _asked(asked: Asked) -> Record:
    answered = {f"tool_answer_{answer or 'open'}": count for answer, count in asked.answers.items()}
    counted: Record = {"tool_calls_asked": asked.calls}
    return counted | dict(sorted(answered.items())) | {"tool_wait_seconds": round(asked.waited, 6)}


def _known(number: float, known: int, of: int) -> float | None:
    if of and not known:
        return None
    if isinstance(number, int):
        return number
    return round(number, 6)


def _share(part: int, of: int) -> float | None:
    if of:
        return round(part / of, 6)
    return None


def _server(report: Report) -> Record | None:
    server = report.server
    if server is None:
        return None
    return {
        "readings": server.readings,
        "steps": server.steps,
        "committed_tokens": server.committed,
        "token_gap": server.gap,
    }
