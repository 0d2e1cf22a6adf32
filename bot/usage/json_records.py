"""A report as records for machines: a flat mapping a group, numbers as numbers, None where something is
unknown. Pure.

A field that a grouping does not tell apart is not there at all.
"""

from collections.abc import Mapping
from typing import TypeAlias

from bot.db.usage.usage_sums import CallSums, TurnSums
from bot.usage.report import INTERVAL_COLUMNS, ApprovalCounts, ReportGroup, ToolUsage, UsageReport, format_utc
from bot.usage.tables import build_notes

RecordValue: TypeAlias = str | int | float | None
JsonRecord: TypeAlias = dict[str, RecordValue]


def build_records(report: UsageReport) -> list[JsonRecord]:
    """A record a group, or one of all."""
    return [build_record(entry, report.query.by or "group") for entry in report.shown_groups]


def build_report_object(report: UsageReport) -> dict[str, object]:
    """Everything: what was asked, the groups, all together, the notes."""
    question = report.query
    scope = question.scope
    return {
        "since": None if scope.since is None else format_utc(scope.since),
        "until": None if scope.until is None else format_utc(scope.until),
        "chat": scope.chat,
        "user": scope.user,
        "model": scope.model,
        "by": question.by,
        "percentiles": report.percentile_method,
        "all": build_record(report.total, "group"),
        "groups": [build_record(entry, question.by or "group") for entry in report.groups],
        "server": _server_fields(report),
        "notes": list(build_notes(report)),
    }


def build_record(group: ReportGroup, label_field: str) -> JsonRecord:
    """One group."""
    found: JsonRecord = {label_field: group.label}
    if group.turns is not None:
        found |= _turn_fields(group.turns)
    if group.calls is not None:
        found |= _call_fields(group.calls) | {"empty_replies": group.empty_replies}
        found |= {f"again_{why}": count for why, count in sorted(group.retries_by_reason.items())}
    if group.tools is not None:
        found |= _tool_fields(group.tools)
    if group.approvals is not None:
        found |= _approval_fields(group.approvals)
    for kind, spread in group.percentiles.items():
        found |= {f"{kind}_count": spread.count}
        found |= {f"{kind}_{name}_seconds": getattr(spread, name) for name in ("p50", "p95", "p99")}
    return found


def _call_fields(calls: CallSums) -> JsonRecord:
    return {
        "calls": calls.calls,
        "input_tokens": _known_or_none(calls.input, calls.input_known, calls.calls),
        "input_tokens_unknown_calls": calls.calls - calls.input_known,
        "cached_tokens": _known_or_none(calls.cached, calls.cached_known, calls.calls),
        "cached_tokens_unknown_calls": calls.calls - calls.cached_known,
        "cached_share": _share_or_none(calls.cached, calls.cached_of),
        "output_tokens": _known_or_none(calls.output, calls.output_known, calls.calls),
        "output_tokens_unknown_calls": calls.calls - calls.output_known,
        "partial_calls": calls.partial,
        "reasoning_tokens": _known_or_none(calls.reasoning, calls.reasoning_known, calls.calls),
        "reasoning_tokens_unknown_calls": calls.calls - calls.reasoning_known,
        "reasoning_share": _share_or_none(calls.reasoning, calls.reasoning_of),
        "canvases_estimated": _known_or_none(calls.canvases, calls.canvases_known, calls.costing),
        "canvases_unknown_calls": calls.costing - calls.canvases_known,
        "thinking_calls": calls.thinking,
        "thinking_canvases_estimated": calls.thinking_canvases,
        "seat_seconds": round(calls.busy, 6),
        "seat_wait_seconds": round(calls.waited, 6),
        "cut_replies": calls.cut,
        "stopped_calls": calls.cancelled,
        "failed_calls": calls.failed,
    }


def _turn_fields(turns: TurnSums) -> JsonRecord:
    counted: JsonRecord = {
        "turns": turns.turns,
        "turns_without_account": turns.turns - turns.settled,
        "thinking_turns": turns.thinking,
        "thinking_turns_seconds": _known_or_none(
            turns.thinking_seconds, turns.thinking_settled, turns.thinking
        ),
        "turns_ended_cut": turns.cut,
        "turns_ended_empty": turns.empty,
    }
    took = zip(INTERVAL_COLUMNS, turns.seconds, strict=True)
    return counted | {
        f"{kind}_seconds": _known_or_none(seconds, turns.settled, turns.turns) for kind, seconds in took
    }


def _tool_fields(tools: ToolUsage) -> JsonRecord:
    outcomes: Mapping[str, int] = {
        f"tool_{why or 'not_ended'}": count for why, count in tools.outcomes.items()
    }
    counted: JsonRecord = {"tool_calls": tools.calls, "tool_failures": tools.failed}
    return (
        counted
        | dict(sorted(outcomes.items()))
        | {"tool_seconds": _known_or_none(tools.seconds, tools.timed, tools.calls)}
    )


def _approval_fields(approvals: ApprovalCounts) -> JsonRecord:
    answered = {f"tool_answer_{answer or 'open'}": count for answer, count in approvals.answers.items()}
    counted: JsonRecord = {"tool_calls_asked": approvals.calls}
    return (
        counted | dict(sorted(answered.items())) | {"tool_wait_seconds": round(approvals.waited_seconds, 6)}
    )


def _known_or_none(value: float, known: int, total: int) -> float | None:
    if total and not known:
        return None
    if isinstance(value, int):
        return value
    return round(value, 6)


def _share_or_none(part: int, total: int) -> float | None:
    if total:
        return round(part / total, 6)
    return None


def _server_fields(report: UsageReport) -> JsonRecord | None:
    server = report.server
    if server is None:
        return None
    return {
        "readings": server.readings,
        "steps": server.steps,
        "committed_tokens": server.committed,
        "token_gap": server.gap,
    }
