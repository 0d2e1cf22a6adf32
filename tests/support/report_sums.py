"""Sums for tests of reports, built without a database; fields that a test does not name have plain values."""

from typing import Any

from bot.db.usage.usage_sums import CallSums, GroupKey, TurnSums

PLAIN_CALL_SUMS = {
    "calls": 2,
    "input": 2000,
    "input_known": 2,
    "cached": 500,
    "cached_known": 2,
    "cached_of": 2000,
    "output": 600,
    "output_known": 2,
    "partial": 0,
    "reasoning": 60,
    "reasoning_known": 2,
    "reasoning_of": 600,
    "canvases": 4,
    "canvases_known": 2,
    "costing": 2,
    "thinking": 1,
    "thinking_canvases": 2,
    "busy": 6.0,
    "waited": 1.0,
    "timed": 2,
    "timed_canvases": 4,
    "timed_seconds": 6.0,
    "cut": 0,
    "cancelled": 0,
    "failed": 0,
}
UNKNOWN_SUMS = dict.fromkeys(
    (
        *("input", "input_known", "cached", "cached_known", "cached_of", "output", "output_known"),
        *("reasoning", "reasoning_known", "reasoning_of", "canvases", "canvases_known", "thinking_canvases"),
        *("timed", "timed_canvases", "timed_seconds"),
    ),
    0,
)
INTERVAL_SECONDS = (10.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 4.0, 2.0, 0.0, 0.0, 0.0, 1.5, 0.0, 0.0, 1.0)


def call_sums(key: GroupKey = None, **changes: Any) -> CallSums:
    return CallSums(key=key, **{**PLAIN_CALL_SUMS, **changes})


def turn_sums(key: GroupKey = None, **changes: Any) -> TurnSums:
    plain: dict[str, Any] = {
        "turns": 2,
        "thinking": 1,
        "empty": 0,
        "cut": 0,
        "answered": changes.get("turns", 2),
        "failed": 0,
        "settled": 2,
        "thinking_settled": 1,
        "thinking_calls": 2,
        "thinking_calls_known": 2,
        "thinking_calls_partial": 0,
        "thinking_canvases": 3,
    }
    return TurnSums(key=key, **{**plain, "thinking_seconds": 6.0, "seconds": INTERVAL_SECONDS, **changes})
