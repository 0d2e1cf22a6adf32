"""The result of `canvasgram bench` that is stored beside the database: direct and gateway, row by row."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import htpy as h
from pydantic import BaseModel, Field, ValidationError

from bot.admin.components import cut, show_nothing
from bot.admin.data_table import CanvasColumn, Cell, CellValue, DataTable, NumberColumn, TableColumn

MAX_BYTES = 8_000_000
MAX_CONDITIONS = 40
_MAX_CONDITION_CHARACTERS = 200


class StoredRow(BaseModel):
    """What one protocol measured, directly or through the gateway; None is unknown."""

    label: str
    way: Literal["direct", "gateway", "limited"]
    streamed: bool
    thinking: str
    at_once: int
    output_tokens: int | None
    canvases_estimated: int | None
    seconds_an_answer: float | None
    first_block_seconds: float | None
    seconds_a_canvas: float | None


class StoredBench(BaseModel):
    """A result as `--out` writes it; of its other fields nothing is shown."""

    whole: bool
    conditions: Mapping[str, str]
    rows: Annotated[list[StoredRow], Field(max_length=200)]


def find_bench_file(data_folder: Path) -> Path:
    """Where the result has to be."""
    return data_folder / "bench" / "canvasgram-bench.json"


def load_bench(file: Path) -> StoredBench | str:
    """The stored result, or a sentence that says why there is none."""
    try:
        if file.stat().st_size > MAX_BYTES:
            return f"{file} is too large to be a result."
        return StoredBench.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return (
            "Nothing is stored. To have results here, run canvasgram bench gateway with "
            f"--out {file.parent}, and with --endpoint for yours."
        )
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}."
    except ValidationError:
        return f"{file} holds no result of this version."


def build_bench_table(bench: StoredBench | str) -> DataTable:
    """Each row as it was measured: what is direct and what went through the gateway are never one figure.

    Without a result its place says why.
    """
    columns = (
        TableColumn("what", "What"),
        TableColumn("way", "Way"),
        TableColumn("thinking", "Thinking"),
        NumberColumn("at_once", "At once"),
        NumberColumn("output_tokens", "Tokens"),
        CanvasColumn("canvases_estimated", "Canvases (estimated)"),
        NumberColumn("seconds_an_answer", "Seconds an answer"),
        NumberColumn("first_block_seconds", "First block s"),
        CanvasColumn("seconds_a_canvas", "Seconds a canvas"),
    )
    title = "Measured directly and through the gateway"
    if isinstance(bench, str):
        return DataTable("bench", title, columns, (), bench)
    return DataTable("bench", title, columns, tuple(_build_row(row) for row in bench.rows))


def _build_row(row: StoredRow) -> tuple[Cell, ...]:
    direct_way = "direct, streamed" if row.streamed else "direct, whole"
    seconds = (row.seconds_an_answer, row.first_block_seconds, row.seconds_a_canvas)
    return (
        Cell(row.label, cut(row.label)),
        Cell("gateway" if row.way == "gateway" else direct_way),
        Cell(row.thinking, cut(row.thinking)),
        Cell(row.at_once),
        Cell(row.output_tokens),
        Cell(row.canvases_estimated),
        *(_seconds_cell(value) for value in seconds),
    )


def _seconds_cell(seconds: float | None) -> Cell:
    value: CellValue = None if seconds is None else round(seconds, 4)
    return Cell(value, None if seconds is None else f"{seconds:.3f}")


def show_conditions(bench: StoredBench | str) -> h.Node:
    """Under which conditions it was measured."""
    if isinstance(bench, str):
        return None
    lines = list(bench.conditions.items())[:MAX_CONDITIONS]
    items = (h.li[f"{cut(name)}: {cut(text, _MAX_CONDITION_CHARACTERS)}"] for name, text in lines)
    return [not bench.whole and show_nothing("It was stopped before its end."), h.ul(".notices")[items]]
