"""Extracts the text of Word, Excel and PowerPoint files. Runs in a killable process, never in the gateway's.

The libraries are imported only there. None of them runs macros, computes formulas or opens what a file refers
to outside of itself.
"""

import io
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from bot.attachments.text_extraction import clean_text
from tools.net.readable import extract_all_text

MAX_UNPACKED_BYTES = 300 * 1024 * 1024  # of all files in one
MAX_GROUP_DEPTH = 20  # of shapes in groups of shapes
MAX_ROWS = 1_048_576  # of an Excel sheet: a file may number one row as the hundred billionth
MAX_BLANK_CELLS = 8  # in a row, side by side; more are one mark
_CELL_SEPARATOR = " | "


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """At most so many sheets or slides, and characters; nothing is begun after `deadline` (monotonic)."""

    pages: int
    characters: int
    deadline: float

    def is_reached(self, page_count: int) -> bool:
        """Whether nothing may be begun after so many pages."""
        return page_count == self.pages or self.characters <= 0 or time.monotonic() > self.deadline


def extract_office_text(body: bytes, pages: int, characters: int, within: float) -> dict[str, Any]:
    """The `texts` of a file, of how many (`of`), and what they are (`noun`): slides or sheets.

    `cut`: one of them is not read to its end. A Word document has one text, its `length`, and no `of`.
    Or what is wrong with it: `refused` is `unknown`, `heavy`, or `empty`.
    """
    bounds = ReadBounds(pages, characters, time.monotonic() + within)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        names = set(archive.namelist())
        if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED_BYTES:
            return {"refused": "heavy"}
    if "word/document.xml" in names:
        document = _read_word(body, bounds)
    elif "xl/workbook.xml" in names:
        document = _read_excel(body, bounds)
    elif "ppt/presentation.xml" in names:
        document = _read_powerpoint(body, bounds)
    else:
        return {"refused": "unknown"}
    if any(text.strip() for text in document["texts"]):
        return document
    return {"refused": "empty"}


def _read_word(body: bytes, bounds: ReadBounds) -> dict[str, Any]:
    import mammoth

    without_images = mammoth.images.img_element(lambda image: {})
    html = mammoth.convert_to_html(io.BytesIO(body), convert_image=without_images).value
    _, text = extract_all_text(html)
    text = clean_text(text)
    return {"texts": [text[: bounds.characters]], "of": None, "length": len(text), "noun": ""}


def _read_excel(body: bytes, bounds: ReadBounds) -> dict[str, Any]:
    import openpyxl

    # What a formula gave is in the file, if a program has computed it; else the formula itself is shown.
    results = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False)
    formulas = openpyxl.load_workbook(io.BytesIO(body), read_only=True, keep_links=False)
    texts: list[str] = []
    is_cut = False
    left = bounds
    for sheet, source in zip(results.worksheets, formulas.worksheets, strict=True):
        text, is_sheet_cut = _join_rows(_iterate_rows(sheet), _iterate_rows(source), left)
        text = clean_text(f"Sheet: {sheet.title}\n{text}").strip()
        is_cut |= is_sheet_cut or len(text) > left.characters
        texts.append(text[: left.characters])
        left = replace(left, characters=left.characters - len(texts[-1]))
        if left.is_reached(len(texts)):
            break
    return {"texts": texts, "of": len(results.worksheets), "noun": "sheet", "cut": is_cut}


def _iterate_rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    sheet.reset_dimensions()  # those a file claims may be wrong, and each row is filled up to them
    values: Iterator[tuple[Any, ...]] = sheet.values
    return values


def _join_rows(
    results: Iterable[tuple[Any, ...]], formulas: Iterable[tuple[Any, ...]], bounds: ReadBounds
) -> tuple[str, bool]:
    """The rows of a sheet that hold anything, up to the bounds, and whether there are more."""
    lines = []
    characters = bounds.characters
    for number, (values, sources) in enumerate(zip(results, formulas, strict=False), start=1):
        is_late = number > 1 and time.monotonic() > bounds.deadline
        if number > MAX_ROWS or characters <= 0 or is_late:
            lines.append("(the rest of this sheet is left out)")
            return "\n".join(lines), True
        line = _join_cells(_format_cell(value, source) for value, source in zip_longest(values, sources))
        if line:
            lines.append(line)
            characters -= len(line) + 1
    return "\n".join(lines), False


def _join_cells(cells: Iterable[str]) -> str:
    """The cells of a row side by side; in place of many blank ones stands the column that comes next."""
    from openpyxl.utils import get_column_letter

    shown: list[str] = []
    blank_count = 0
    for column, cell in enumerate(cells, start=1):
        if not cell:
            blank_count += 1
            continue
        if blank_count > MAX_BLANK_CELLS:
            shown.append(f"(column {get_column_letter(column)})")
        else:
            shown += [""] * blank_count
        blank_count = 0
        shown.append(cell)
    return _CELL_SEPARATOR.join(shown)


def _format_cell(value: object, source: object) -> str:
    match value:
        case None:
            return "" if source is None else str(source)
        case bool():
            return str(value).upper()
        case float():
            return f"{value:.15g}"
    return " ".join(str(value).split())


def _read_powerpoint(body: bytes, bounds: ReadBounds) -> dict[str, Any]:
    import pptx

    slides = pptx.Presentation(io.BytesIO(body)).slides
    texts = ("\n".join(_list_slide_texts(slide)) for slide in slides)
    return {"texts": _take_texts(texts, bounds), "of": len(slides), "noun": "slide"}


def _list_slide_texts(slide: Any) -> Iterator[str]:
    yield from _list_shape_texts(slide.shapes, depth=0)
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and notes.text.strip():
        yield f"Notes: {notes.text}"


def _list_shape_texts(shapes: Iterable[Any], depth: int) -> Iterator[str]:
    from pptx.shapes.group import GroupShape

    for shape in shapes:
        if isinstance(shape, GroupShape):
            if depth < MAX_GROUP_DEPTH:
                yield from _list_shape_texts(shape.shapes, depth + 1)
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield shape.text_frame.text
        elif shape.has_table:
            for row in shape.table.rows:
                yield _CELL_SEPARATOR.join(" ".join(cell.text.split()) for cell in row.cells)
        elif shape.has_chart:
            yield "(a chart)"


def _take_texts(texts: Iterable[str], bounds: ReadBounds) -> list[str]:
    """The texts up to the bounds; at least the first."""
    taken: list[str] = []
    left = bounds
    for text in texts:
        taken.append(clean_text(text).strip()[: left.characters])
        left = replace(left, characters=left.characters - len(taken[-1]))
        if left.is_reached(len(taken)):
            break
    return taken
