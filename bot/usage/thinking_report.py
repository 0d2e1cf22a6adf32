"""The part of a usage report on thinking: its cost, and how turns ended with and without it. Pure.

Unknown is called unknown, and a sum with gaps "at least".
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bot.db.usage.thinking_sums import ThinkingSums
from bot.tables import CanvasColumnName, TextTable
from bot.usage.figures import (
    EMPTY_CELL,
    format_at_least,
    format_known_seconds,
    format_seconds,
    format_share,
)
from bot.usage.report import UsageReport, group_label

_COST_COLUMNS = (
    *("turns", "share"),
    *map(CanvasColumnName, ("canvases est.", "share of canvases", "canvases a turn")),
    *("thought tokens", "seconds", "a turn", "reads", "their seconds"),
)
_ENDING_COLUMNS = ("turns", "answered", "cut short", "stopped", "failed", "not begun", "open", "retried")
_CUT_ENDINGS = ("cut", "steps", "seconds")


@dataclass(frozen=True, slots=True)
class EndingCounts:
    """Turns by how they ended for the person.

    `cut`: with a part of an answer, at a limit of length, steps or time. `failed`: with a reason in place of
    an answer. `open`: they have not ended. `rejected`: they did not begin, because a limit was used up.
    """

    answered: int
    cut: int
    stopped: int
    failed: int
    rejected: int
    open: int


def count_endings(sums: ThinkingSums) -> EndingCounts:
    """Group the stored endings; one of a newer version that this one does not know counts as failed."""
    endings = dict(sums.endings)
    answered = endings.pop("answered", 0)
    stopped = endings.pop("stopped", 0) + endings.pop("edited", 0)
    rejected = endings.pop("limit", 0)
    still_open = endings.pop(None, 0)
    cut = sum(endings.pop(ending, 0) for ending in _CUT_ENDINGS)
    return EndingCounts(answered, cut, stopped, sum(endings.values()), rejected, still_open)


def build_sections(report: UsageReport) -> Iterator[TextTable]:
    """The tables of a report by thinking; of another none."""
    all_sums = [group.thinking for group in report.groups if group.thinking is not None]
    if not all_sums:
        return
    turns = sum(sums.turns for sums in all_sums)
    canvases = sum(sums.canvases for sums in all_sums)
    cost_rows = tuple(_cost_row(sums, turns, canvases) for sums in all_sums)
    yield TextTable("What thinking cost", ("thinking", *_COST_COLUMNS), cost_rows)
    ending_rows = tuple(_ending_row(sums) for sums in all_sums)
    yield TextTable("How turns ended", ("thinking", *_ENDING_COLUMNS), ending_rows)


def build_notes(report: UsageReport) -> Iterator[str]:
    """What readers must know about these tables; nothing for another report."""
    if any(group.thinking for group in report.groups):
        yield (
            "A turn counts as it began. What switched it later is a reason why calls were asked again: "
            "failing and silent switched thinking on, brake switched it off."
        )
        yield "Reads asked the endpoint in one step whether to think."


def build_fields(sums: ThinkingSums) -> dict[str, int | float | None]:
    """The same for machines; None is unknown."""
    endings = count_endings(sums)
    thought_tokens = None
    if sums.unknown_thoughts < sums.calls or not sums.calls:
        thought_tokens = sums.thought_tokens
    return {
        "turns_answered": endings.answered,
        "turns_cut_short": endings.cut,
        "turns_stopped": endings.stopped,
        "turns_failed": endings.failed,
        "turns_not_begun": endings.rejected,
        "turns_open": endings.open,
        "turns_retried": sums.replaced,
        "thought_tokens": thought_tokens,
        "thought_tokens_unknown_calls": sums.unknown_thoughts,
        "decision_reads": sums.reads,
        "decision_read_seconds": round(sums.read_seconds, 6),
    }


def _cost_row(sums: ThinkingSums, all_turns: int, all_canvases: int) -> tuple[str, ...]:
    canvases_per_turn = seconds_per_turn = EMPTY_CELL
    if sums.counted:
        canvases_per_turn = f"{sums.canvases / sums.turns:.1f}"
        if sums.counted < sums.calls or sums.partial:
            canvases_per_turn = f"≥ {canvases_per_turn}"
    if sums.timed:
        seconds_per_turn = format_seconds(sums.seconds / sums.timed)
    return (
        group_label("thinking", sums.thinking),
        f"{sums.turns:,}",
        format_share(sums.turns, all_turns),
        format_at_least(sums.canvases, sums.counted, sums.calls, partial=sums.partial),
        format_share(sums.canvases, all_canvases),
        canvases_per_turn,
        format_at_least(sums.thought_tokens, sums.calls - sums.unknown_thoughts, sums.calls),
        format_known_seconds(sums.seconds, sums.timed, sums.turns),
        seconds_per_turn,
        f"{sums.reads:,}",
        format_seconds(sums.read_seconds),
    )


def _ending_row(sums: ThinkingSums) -> tuple[str, ...]:
    endings = count_endings(sums)
    counts = (
        *(sums.turns, endings.answered, endings.cut, endings.stopped),
        *(endings.failed, endings.rejected, endings.open, sums.replaced),
    )
    return group_label("thinking", sums.thinking), *(f"{count:,}" for count in counts)
