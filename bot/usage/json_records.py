"""A report as records for machines: one flat mapping per group, with None for what is unknown. Pure.

A field that a grouping cannot separate is missing from its records.
"""

from dataclasses import fields
from typing import Any, TypeAlias, get_args

from bot.db.tools.approvals import ApprovalAnswer
from bot.db.usage.usage_sums import CallSums, TurnSums
from bot.db.usage.verdict_sums import VerdictSums
from bot.domain import RefusalReason, ResultOutcome
from bot.usage import thinking_report
from bot.usage.figures import get_known
from bot.usage.local_times import format_utc
from bot.usage.report import (
    INTERVAL_COLUMNS,
    ApprovalCounts,
    Percentiles,
    ReportGroup,
    ToolUsage,
    UsageReport,
)
from bot.usage.tables import build_notes

RETRY_REASONS = (
    *("away", "blind", "brake", "cut", "empty", "failing"),
    *("fallback", "main", "more", "refused", "restart", "silent", "yielded"),
)
"""Why calls are repeated, as it is stored."""

RecordValue: TypeAlias = str | int | float | None
JsonRecord: TypeAlias = dict[str, RecordValue]


def build_records(report: UsageReport) -> list[JsonRecord]:
    """One record per group, or one of the total, each with how its percentiles are known."""
    known = {"percentiles": report.percentile_method}
    return [build_record(group, report.query.by or "group") | known for group in report.shown_groups]


def list_record_fields(label_field: str) -> list[str]:
    """The fields that records can have, in their order, whatever a report holds."""
    no_percentiles = Percentiles(0, 0.0, 0.0, 0.0, 0.0)
    call_zeros: dict[str, Any] = {column.name: 0 for column in fields(CallSums)}
    turn_zeros: dict[str, Any] = {column.name: 0 for column in fields(TurnSums)}
    turn_zeros["seconds"] = (0.0,) * len(INTERVAL_COLUMNS)
    full_group = ReportGroup(
        None,
        "",
        calls=CallSums(**call_zeros),
        turns=TurnSums(**turn_zeros),
        tools=ToolUsage(),
        approvals=ApprovalCounts(),
        verdicts=VerdictSums(None, 0, 0),
        percentiles=dict.fromkeys(INTERVAL_COLUMNS, no_percentiles),
    )
    return [*build_record(full_group, label_field), "percentiles"]


def build_report_object(report: UsageReport) -> dict[str, object]:
    """The whole report: its query, the groups, the total, the notes."""
    scope = report.query.scope
    label_field = report.query.by or "group"
    return {
        "since": _utc_or_none(scope.since),
        "until": _utc_or_none(scope.until),
        "chat": scope.chat,
        "user": scope.user,
        "model": scope.model,
        "endpoint": scope.endpoint,
        "tool": scope.tool,
        "purpose": scope.purpose,
        "thinking": scope.thinking,
        "by": report.query.by,
        "percentiles": report.percentile_method,
        "all": build_record(report.total, "group"),
        "groups": [build_record(group, label_field) for group in report.groups],
        "server": _server_fields(report),
        "notes": [*thinking_report.build_notes(report), *build_notes(report)],
    }


def build_record(group: ReportGroup, label_field: str) -> JsonRecord:
    """The record of one group, with its label in the field `label_field`."""
    record: JsonRecord = {label_field: group.label}
    if group.turn_sums is not None:
        record |= _turn_fields(group.turn_sums)
    if group.calls is not None:
        record |= _call_fields(group.calls)
        if group.empty_replies is not None:
            record["empty_replies"] = group.empty_replies
        counts = dict.fromkeys(RETRY_REASONS, 0) | dict(sorted(group.retries_by_reason.items()))
        record |= {f"again_{reason}": count for reason, count in counts.items()}
    if group.tools is not None:
        record |= _tool_fields(group.tools)
    if group.approvals is not None:
        record |= _approval_fields(group.approvals)
    if group.verdicts is not None:
        record |= {"answers_judged": group.verdicts.judged, "answers_judged_bad": group.verdicts.bad}
    if group.thinking is not None:
        record |= thinking_report.build_fields(group.thinking)
    for interval, percentiles in group.percentiles.items():
        record[f"{interval}_count"] = percentiles.count
        for share in ("p50", "p95", "p99"):
            record[f"{interval}_{share}_seconds"] = getattr(percentiles, share)
    return record


def _call_fields(calls: CallSums) -> JsonRecord:
    seconds_per_canvas = calls.seconds_per_canvas
    return {
        "calls": calls.calls,
        "input_tokens": _known_or_none(calls.input, calls.input_known, calls.calls),
        "input_tokens_unknown_calls": calls.calls - calls.input_known,
        "cached_tokens": _known_or_none(calls.cached, calls.cached_known, calls.calls),
        "cached_tokens_unknown_calls": calls.calls - calls.cached_known,
        "cached_share": _share_or_none(calls.cached, calls.cached_of),
        "output_tokens": _known_or_none(calls.output, calls.output_known, calls.calls),
        "output_tokens_unknown_calls": calls.calls - calls.output_known,
        "partly_counted_calls": calls.partial,
        "reasoning_tokens": _known_or_none(calls.reasoning, calls.reasoning_known, calls.calls),
        "reasoning_tokens_unknown_calls": calls.calls - calls.reasoning_known,
        "reasoning_share": _share_or_none(calls.reasoning, calls.reasoning_of),
        "canvases_estimated": _known_or_none(calls.canvases, calls.canvases_known, calls.costing),
        "canvases_unknown_calls": calls.costing - calls.canvases_known,
        "thinking_calls": calls.thinking,
        "thinking_canvases_estimated": calls.thinking_canvases,
        "seat_seconds": round(calls.busy, 6),
        "seconds_per_canvas": None if seconds_per_canvas is None else round(seconds_per_canvas, 6),
        "seconds_per_canvas_calls": calls.timed,
        "call_seat_wait_seconds": round(calls.waited, 6),
        "cut_replies": calls.cut,
        "stopped_calls": calls.cancelled,
        "failed_calls": calls.failed,
    }


def _turn_fields(turns: TurnSums) -> JsonRecord:
    record: JsonRecord = {
        "turns": turns.turns,
        "turns_without_account": turns.turns - turns.settled,
        "thinking_turns": turns.thinking,
        "thinking_turns_seconds": _known_or_none(
            turns.thinking_seconds, turns.thinking_settled, turns.thinking
        ),
        "thinking_turns_canvases_estimated": _known_or_none(
            turns.thinking_canvases, turns.thinking_calls_known, turns.thinking_calls
        ),
        "thinking_turns_canvases_unknown_calls": turns.thinking_calls - turns.thinking_calls_known,
        "turns_ended_cut": turns.cut,
        "turns_ended_empty": turns.empty,
    }
    for interval, seconds in zip(INTERVAL_COLUMNS, turns.seconds, strict=True):
        record[f"{interval}_seconds"] = _known_or_none(seconds, turns.settled, turns.turns)
    return record


def _tool_fields(tools: ToolUsage) -> JsonRecord:
    outcomes = dict.fromkeys((*get_args(ResultOutcome), None), 0) | dict(tools.outcomes)
    counts = {f"tool_{outcome or 'not_ended'}": count for outcome, count in outcomes.items()}
    refusals = dict.fromkeys((*get_args(RefusalReason), None), 0) | dict(tools.refusals)
    counts |= {f"tool_refused_{reason or 'unknown'}": count for reason, count in refusals.items()}
    return {
        "tool_calls": tools.calls,
        "tool_failures": tools.failed,
        **dict(sorted(counts.items())),
        "tool_seconds": _known_or_none(tools.seconds, tools.timed, tools.calls),
    }


def _approval_fields(approvals: ApprovalCounts) -> JsonRecord:
    answers = dict.fromkeys((*get_args(ApprovalAnswer), None), 0) | dict(approvals.answers)
    counts = {f"tool_answer_{answer or 'open'}": count for answer, count in answers.items()}
    return {
        "tool_calls_asked": approvals.calls,
        **dict(sorted(counts.items())),
        "tool_wait_seconds": round(approvals.waited_seconds, 6),
    }


def _utc_or_none(time: float | None) -> str | None:
    if time is None:
        return None
    return format_utc(time)


def _known_or_none(value: float, known: int, total: int) -> float | None:
    known_value = get_known(value, known, total)
    return None if known_value is None else round(known_value, 6)


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
