"""Turns: which there were, the newest first, and what each of them took."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import htpy as h

from bot.admin.components import change_query, cut, mark_ending, show_nothing
from bot.admin.data_table import CanvasColumn, Cell, DataTable, NumberColumn, TableColumn
from bot.admin.filter_form import select_field, show_filter_form
from bot.admin.filters import Filters, parse_filters
from bot.admin.keyset_pages import PAGE_ROWS, Cursor, KeysetPage, parse_cursor, show_pager
from bot.admin.names import name_lane, name_person
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.table_view import build_count_cell, build_moment_cell, build_seconds_cell, show_table
from bot.admin.turn_bar import choose_scale, draw_turn_bar, show_bar_legend
from bot.db.people import people
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.usage.call_filters import ANY_FAILURE, NOT_ENDED, UNKNOWN_REFUSAL, UnknownCount
from bot.db.usage.rankings import RankedTurn
from bot.db.usage.recent_names import list_recent_names
from bot.db.usage.turn_list import (
    MAX_EXAMINED,
    ListedTurn,
    TurnListPage,
    TurnSelection,
    count_turnless_calls,
    list_turns,
)
from bot.db.usage.usage_sums import Scope
from bot.errors import QuestionRefused
from bot.usage.figures import EMPTY_CELL, UNKNOWN
from bot.usage.query_args import parse_choice
from bot.usage.refusals import REFUSAL_LABELS

ENDINGS = {
    "answered": "answered",
    "cut": "answered, cut",
    ANY_FAILURE: "any failure",
    "empty": "empty reply",
    "steps": "no steps left",
    "seconds": "no time left",
    "away": "endpoint away",
    "refused": "endpoint refused",
    "too_long": "prompt too long",
    "failed": "failed",
    "stopped": "stopped",
    "edited": "message edited",
    "limit": "daily limit",
    "running": "not over",
    "parked": "waits for a person",
}
"""What turns can be filtered by, and its words: endings, and states of turns without one."""
TOOL_OUTCOMES = {
    ANY_FAILURE: "any failure",
    "ok": "well",
    "error": "error",
    "timeout": "too late",
    "interrupted": "interrupted",
    "unknown": "unknown",
    NOT_ENDED: "not ended",
    "refused": "not run",
    **{f"refused:{reason or UNKNOWN_REFUSAL}": f"not run: {text}" for reason, text in REFUSAL_LABELS.items()},
}
"""What the tool calls of turns can be filtered by, and its words."""
UNKNOWN_COUNTS: Mapping[UnknownCount, str] = {
    "any": "any count",
    "input": "input",
    "cached": "cached input",
    "output": "output",
    "reasoning": "thoughts",
    "partial": "counted in part",
}
"""What of calls may be unknown, and its words."""
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,3})?", re.ASCII)
_COLUMNS = (
    TableColumn("received_at", "When", style="moment"),
    TableColumn("ending", "Ending", style="ending"),
    NumberColumn("seconds", "Took", style="took"),
    TableColumn("who", "Who", style="name"),
    TableColumn("where", "Where", style="name"),
    NumberColumn("steps", "Steps"),
    CanvasColumn("canvases", "Canvases"),
    NumberColumn("input", "Tokens in"),
    NumberColumn("output", "Tokens out"),
    NumberColumn("waited", "Waited"),
    TableColumn("verdict", "Verdict", style="brief"),
    TableColumn("thinking", "Thinks", style="brief"),
    TableColumn("turn", "Turn", is_shown=False),
)
_COUNTS_PLACE = 5  # before the figures, for the columns of calls that a page is about
_UNKNOWN_CALLS = NumberColumn("unknown_calls", "Unknown calls")
_TOOL_CALLS = NumberColumn("tool_calls", "Such calls")


async def show_turns(request: PageRequest) -> ScreenPage:
    """A page of the list."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    selection = parse_selection(request, filters)
    cursor = parse_cursor(request.query.get("before"))
    before = None if cursor is None else (cursor.at, cursor.id)
    async with request.read() as tx:
        listed = await list_turns(tx, selection, before=before, limit=PAGE_ROWS)
        turnless_calls = await count_turnless_calls(tx, selection)
        names = await people.list_names(tx)
        recent = await list_recent_names(tx)
    table = build_table(request, selection, listed, names)
    page = KeysetPage(listed.turns, None if listed.next is None else Cursor(*listed.next))
    form = show_filter_form(request, filters, names, recent, *_show_fields(request))
    besides = turnless_calls > 0 and show_nothing(_describe_turnless_calls(turnless_calls))
    accounts = [turn.seconds for turn in listed.turns]
    rows = show_table(table, request, note=show_bar_legend(accounts, choose_scale(accounts)))
    return ScreenPage("Turns", [form, rows, besides, show_pager(request, page)], [table])


def parse_selection(request: PageRequest, filters: Filters) -> TurnSelection:
    """Which turns the page asks for; raises QuestionRefused for what is no ending and no number."""
    ending = request.query.get("ending")
    if ending:
        ending = parse_choice("The ending", ending, tuple(ENDINGS))
    outcome = request.query.get("outcome")
    if outcome:
        outcome = parse_choice("The outcome", outcome, tuple(TOOL_OUTCOMES))
    longer_than = _parse_number(request, "longer")
    steps = _parse_number(request, "steps")
    return TurnSelection(
        filters.scope,
        ending or None,
        longer_than,
        None if steps is None else int(steps),
        _parse_unknown(request),
        request.query.get("why") or None,
        outcome or None,
    )


def _parse_unknown(request: PageRequest) -> UnknownCount | None:
    """Which count of calls is to be unknown; any, if only the reason is named."""
    name = request.query.get("unknown")
    if not name:
        return "any" if request.query.get("why") else None
    return parse_choice("What is unknown", name, tuple(UNKNOWN_COUNTS))


def _parse_number(request: PageRequest, name: str) -> float | None:
    text = request.query.get(name)
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise QuestionRefused(f"“{cut(text)}” is no number. Write digits, such as 30.")
    return float(text)


def _show_fields(request: PageRequest) -> tuple[h.Element, ...]:
    ending = select_field("Ending", "ending", request.query.get("ending"), ENDINGS.items())
    return (
        ending,
        select_field("A tool call ended", "outcome", request.query.get("outcome"), TOOL_OUTCOMES.items()),
        select_field("Unknown usage", "unknown", request.query.get("unknown"), UNKNOWN_COUNTS.items()),
        h.label["Why unknown", h.input(type="text", name="why", value=request.query.get("why", ""))],
        _number_field(request, "Longer than (s)", "longer"),
        _number_field(request, "More steps than", "steps"),
    )


def _number_field(request: PageRequest, label: str, name: str) -> h.Element:
    value = request.query.get(name, "")
    return h.label[label, h.input(type="text", inputmode="decimal", name=name, value=value, size="6")]


def _describe_turnless_calls(count: int) -> str:
    calls = "1 such call" if count == 1 else f"{count:,} such calls"
    return f"Besides, {calls} of the gateway itself belong to no turn."


def build_table(
    request: PageRequest, selection: TurnSelection, page: TurnListPage, names: Mapping[int, str]
) -> DataTable:
    """The turns as a table; with how many calls of each the selection is about, if it is about calls."""
    nothing = _describe_nothing(request, selection, page)
    counts: dict[TableColumn, Callable[[ListedTurn], int]] = {}
    if selection.unknown is not None:
        counts[_UNKNOWN_CALLS] = lambda turn: turn.unknown_calls
    if selection.tool_outcome is not None or selection.scope.tool is not None:
        counts[_TOOL_CALLS] = lambda turn: turn.tool_calls
    columns = (*_COLUMNS[:_COUNTS_PLACE], *counts, *_COLUMNS[_COUNTS_PLACE:])
    scale = choose_scale(turn.seconds for turn in page.turns)
    rows = []
    for turn in page.turns:
        cells = _build_row(request, turn, names, scale)
        count_cells = (Cell(count(turn)) for count in counts.values())
        rows.append((*cells[:_COUNTS_PLACE], *count_cells, *cells[_COUNTS_PLACE:]))
    return DataTable("turns", "The newest first", columns, tuple(rows), nothing)


def _describe_nothing(request: PageRequest, selection: TurnSelection, page: TurnListPage) -> str:
    """Why the page has no turn."""
    if page.next is not None:
        return f"None of the {MAX_EXAMINED:,} turns looked at fits all filters. Older ones may."
    scope = selection.scope
    if selection != TurnSelection(Scope(scope.since, scope.until, zone=scope.zone)):
        return "No turn in this time fits all filters."
    if request.query.get("before"):
        return "No older turn in this time."
    return "No turn in this time. There will be one for each question that the bot is asked."


def _build_row(
    request: PageRequest, turn: ListedTurn, names: Mapping[int, str], scale: float
) -> tuple[Cell, ...]:
    sums = turn.sums
    who = name_person(sums.user, names)
    thinking = cut(f"{'on' if sums.thinking else 'off'}: {turn.thinking_why or UNKNOWN}")
    took = build_seconds_cell(sums.seconds)
    return (
        build_moment_cell(sums.received_at, request, f"{ADMIN_PATH}/turn/{sums.turn}"),
        _ending_cell(request, turn),
        replace(took, picture=draw_turn_bar(turn.seconds, scale)),
        Cell(who, href=_narrow(request, "user", str(sums.user)), title=who),
        _where_cell(request, sums, names),
        Cell(turn.steps),
        _sum_cell(sums, sums.canvases),
        _sum_cell(sums, sums.input),
        _sum_cell(sums, sums.output),
        build_seconds_cell(sums.waited),
        Cell(turn.verdict or "", turn.verdict or EMPTY_CELL),
        Cell(thinking, "on" if sums.thinking else EMPTY_CELL, title=thinking),
        Cell(sums.turn),
    )


def _where_cell(request: PageRequest, sums: RankedTurn, names: Mapping[int, str]) -> Cell:
    """Where a turn was; nothing for a private chat, which is named by its person."""
    where = name_lane(sums.chat, names)
    if sums.chat == str(sums.user):
        return Cell(where, EMPTY_CELL)
    return Cell(where, href=_narrow(request, "chat", sums.chat), title=where)


def _narrow(request: PageRequest, name: str, value: str) -> str:
    """The address of the first page with one filter more."""
    return change_query(request, before=None, **{name: value})


def _ending_cell(request: PageRequest, turn: ListedTurn) -> Cell:
    mark, style = mark_ending(turn.sums.ending)
    ending = turn.sums.ending or turn.state
    if ending not in ENDINGS:
        return Cell(cut(ending), f"{mark} {cut(ending)}", style=style)
    href = _narrow(request, "ending", ending)
    return Cell(ENDINGS[ending], f"{mark} {ENDINGS[ending]}", href, style=style)


def _sum_cell(sums: RankedTurn, count: int | None) -> Cell:
    """A sum over the turn's calls."""
    if not sums.calls:
        return Cell(0)
    return build_count_cell(count, is_complete=sums.counted)


SCREEN = Screen("turns", "Turns", 3, {"": show_turns})
