"""What `canvasgram report` and `canvasgram turn` answer: looks at the database and writes out what it finds.

Raises errors of the house for whatever cannot be answered.
"""

from collections.abc import Callable
from typing import Literal

from bot.db import rankings
from bot.db.engine import Database
from bot.db.looking import looked_at
from bot.db.rankings import Sort
from bot.db.steps import steps
from bot.db.sums import Scope
from bot.errors import NothingFound
from bot.usage import charts, figures, formats, lists, records, turn
from bot.usage.answers import answered
from bot.usage.figures import Section
from bot.usage.records import Record
from bot.usage.report import Question, Report

Format = Literal["table", "csv", "json", "md", "png"]


async def report(url: str, question: Question, form: Format) -> str | bytes:
    """The answer to a question, in one of the formats."""
    if form == "png" and question.by is None:
        question = Question(question.scope, "day")  # a picture of one bar says little
    async with looked_at(url) as database:
        found = await answered(database, question)
    if found.is_empty:
        raise NothingFound(_nothing(question.scope))
    return _WRITTEN[form](found)


async def ranking(
    url: str, what: Literal["turns", "calls"], scope: Scope, sort: Sort, top: int, form: Format
) -> str | bytes:
    """The turns or calls that took most."""
    async with looked_at(url) as database:
        section, found = await _ranked(database, what, scope, sort, top)
    if not found:
        raise NothingFound(_nothing(scope))
    match form:
        case "csv":
            return formats.as_csv(found)
        case "json":
            return formats.as_json(found)
        case "md":
            return formats.as_markdown([section], [])
    return formats.as_table([section], [])


async def step_by_step(url: str, number: int, *, texts: bool, json: bool) -> str:
    """One turn."""
    async with looked_at(url) as database, database.reading() as tx:
        found = await steps(tx, number, texts=texts)
    if found is None:
        raise NothingFound(f"There is no turn {number}. `canvasgram report --list turns` shows those there are.")
    return turn.as_json(found) if json else "\n".join(turn.lines(found))


async def _ranked(
    database: Database, what: Literal["turns", "calls"], scope: Scope, sort: Sort, top: int
) -> tuple[Section, list[Record]]:
    async with database.reading() as tx:
        if what == "turns":
            some = await rankings.ranked_turns(tx, scope, sort, top)
            return lists.turns(some, sort), lists.records(some)
        calls = await rankings.calls(tx, scope, sort, top)
        return lists.calls(calls, sort), lists.records(calls)


def _nothing(scope: Scope) -> str:
    return "There is nothing in the ledger yet." if scope.is_everything else "There is nothing in the ledger for this."


def _picture(found: Report) -> bytes:
    return charts.drawn(charts.chart(found, next(figures.notes(found)).partition(" Canvases")[0]))


_WRITTEN: dict[Format, Callable[[Report], str | bytes]] = {
    "table": lambda found: formats.as_table(figures.sections(found), figures.notes(found)),
    "md": lambda found: formats.as_markdown(figures.sections(found), figures.notes(found)),
    "csv": lambda found: formats.as_csv(records.records(found)),
    "json": lambda found: formats.as_json(records.whole(found)),
    "png": _picture,
}
