"""Keyset pages: each begins after the last row of the one before, however many rows there are. Pure."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import htpy as h

from bot.admin.components import change_query
from bot.admin.page_request import PageRequest
from bot.errors import QuestionRefused

PAGE_ROWS = 50
_CURSOR = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,10})?)-([0-9]{1,18})", re.ASCII)
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of a row: its time (epoch seconds) and its id. A page has what is older."""

    at: float
    id: int

    @property
    def key(self) -> str:
        """The cursor as `?before=` has it."""
        return f"{self.at!r}-{self.id}"


@dataclass(frozen=True, slots=True)
class KeysetPage(Generic[Row]):
    """Rows of a page, and where the next one begins (None: there is none)."""

    rows: tuple[Row, ...]
    next: Cursor | None


def parse_cursor(text: str | None) -> Cursor | None:
    """The cursor of `?before=`; None without one."""
    if not text:
        return None
    match = _CURSOR.fullmatch(text)
    if match is None or not math.isfinite(float(match[1])):
        raise QuestionRefused("This page begins nowhere: go back to the first one.")
    return Cursor(float(match[1]), int(match[2]))


def cut_page(rows: Sequence[Row], find_cursor: Callable[[Row], Cursor]) -> KeysetPage[Row]:
    """The rows of a page; one more was loaded, if there is one."""
    shown = tuple(rows[:PAGE_ROWS])
    return KeysetPage(shown, find_cursor(shown[-1]) if len(rows) > PAGE_ROWS else None)


def show_pager(request: PageRequest, page: KeysetPage[Row]) -> h.Element:
    """Links to the first page and the next one."""
    return h.nav(".pager", aria_label="Pages")[
        "before" in request.query and h.a(href=change_query(request, before=None))["First page"],
        page.next is not None and h.a(href=change_query(request, before=page.next.key), rel="next")["Older"],
    ]
