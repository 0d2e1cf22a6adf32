"""The report of a bench of policies, as lines of text or as JSON. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Generic, Protocol, TypeVar

from bot.tables import Line, TextTable


class PolicyScore(Protocol):
    """Figures that are a row of the table."""

    def format_cells(self) -> Sequence[str]:
        """The row."""
        ...


ScoreT = TypeVar("ScoreT", bound=PolicyScore)
PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PolicyReport(Generic[ScoreT]):
    """All figures of a run.

    `pace`: what was timed and measured beside the scores, by name; `notes` say it in lines below the table.
    `holds`: whether the bounds for `--check` are kept.
    """

    titles: Sequence[str]
    scores: tuple[ScoreT, ...]
    conditions: tuple[tuple[str, str], ...]
    pace: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    holds: bool = True


def format_lines(report: PolicyReport[ScoreT]) -> Iterator[Line]:
    """A table of the figures, and below it the notes and the conditions."""
    yield TextTable("", report.titles, [score.format_cells() for score in report.scores])
    yield ""
    if report.notes:
        yield from (*report.notes, "")
    for name, text in report.conditions:
        yield f"{name}: {text}"


def format_json(report: PolicyReport[ScoreT]) -> str:
    """The same for machines."""
    return json.dumps({**asdict(report), "conditions": dict(report.conditions)}, indent=1, ensure_ascii=False)
