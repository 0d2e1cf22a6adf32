"""Figures that others have published of this model, each with its own conditions, from `published.csv`.

The wording is ours; none of them was measured by us. What a source does not state is unknown here, too.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One figure: `rate` in tokens a second as it was published, everything else in words.

    `beside` is the key of the protocol it compares with; `seconds` are those of one answer, or of all that
    came at once. `streamed` False: the answers came whole.
    """

    hardware: str
    precision: str
    rate: str
    how: str
    source: str
    output: str
    at_once: str
    thinking: str
    beside: str
    seconds: float | None
    streamed: bool


def _read_figures() -> Iterator[PublishedFigure]:
    with Path(__file__).with_name("published.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values: dict[str, Any] = dict(row)
            values["seconds"] = float(row["seconds"]) if row["seconds"] else None
            values["streamed"] = row["streamed"] == "yes"
            yield PublishedFigure(**values)


PUBLISHED_FIGURES = tuple(_read_figures())
READING_NOTES = (
    "Beside a published figure: seconds of one answer, the mean, or of all that were sent at once.",
    "The highest figures leave out prefill and use 16 steps.",
    "Tokens a second rise with how full the last canvas is: "
    "94 tokens in 1.42 s and 256 in 1.6 s are the same work.",
    "No published figure covers thinking, tools and more than 8,000 tokens of context together.",
    "A figure measured through a gateway holds history, tools and delivery; "
    "only a direct one is the model's.",
)
