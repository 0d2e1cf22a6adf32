"""Tables as plain values, which `layout` prints in the width of a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table, with or without a title and names of its columns; the first column names the rows.

    The first `text_columns` are aligned left, the others right.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1


Line = str | TextTable
