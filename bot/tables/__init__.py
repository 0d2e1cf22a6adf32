"""Tables as plain values, which `layout` prints in the width of a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


class CanvasColumnName(str):
    """The name of a column that is left out where the model server writes no canvases."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table, with or without a title and names of its columns; the first column names the rows.

    The first `text_columns` are aligned left, the others right.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1

    def leave_out_canvases(self) -> "TextTable":
        """The table without its columns about canvases."""
        kept = [n for n, name in enumerate(self.columns) if not isinstance(name, CanvasColumnName)]
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[n] for n in kept), rows=rows)


Line = str | TextTable
