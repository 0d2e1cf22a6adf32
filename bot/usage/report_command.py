"""What `canvasgram report`, `report audit` and `turn` answer: looks at the database and writes out what it
finds.

Raises errors of the house for whatever cannot be answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from bot.db.engine import Database, connected
from bot.db.readonly import looked_at
from bot.db.tools import audit
from bot.db.usage import rankings
from bot.db.usage.rankings import Sort
from bot.db.usage.turn_steps import steps
from bot.db.usage.usage_sums import Scope
from bot.errors import NothingFound, QuestionRefused
from bot.usage import audit_report as changes
from bot.usage import charts, formats
from bot.usage import json_records as records
from bot.usage import query_args as asking
from bot.usage import rankings as lists
from bot.usage import tables as figures
from bot.usage import turn_report as turn
from bot.usage.json_records import Record
from bot.usage.queries import answered
from bot.usage.report import Question, Report
from bot.usage.tables import Section

Format = Literal["table", "csv", "json", "md", "png"]
What = Literal["turns", "calls"]
TOP = 20
SORT: Sort = "tokens"
FORMATS: tuple[Format, ...] = get_args(Format)
WHATS: tuple[What, ...] = get_args(What)


@dataclass(frozen=True, slots=True)
class Wish:
    """A report as it is asked for, word by word; `what` is turns or calls for a list of the `top` ones by
    `sort`.

    `top` None: as many as is usual, 20 of a list, every change by admins.
    """

    since: str | None = None
    until: str | None = None
    chat: str | None = None
    user: int | None = None
    model: str | None = None
    by: str | None = None
    form: str = "table"
    what: str | None = None
    top: int | None = None
    sort: str = SORT


async def report(url: str, wish: Wish, *, now: float) -> str | bytes:
    """The answer in the wanted format. Raises QuestionRefused, NothingFound, or why the database cannot be
    read.
    """
    scope = asking.scope(wish.since, wish.until, wish.chat, wish.user, wish.model, now=now)
    form = asking.one_of("--format", wish.form, FORMATS)
    if wish.what is not None:
        return await _ranking(url, wish, scope, form)
    if wish.top is not None or wish.sort != SORT:
        raise QuestionRefused("--top and --sort go with --list turns or --list calls.")
    by = None if wish.by is None else asking.one_of("--by", wish.by, asking.BYS)
    if form == "png" and by is None:
        by = "day"  # a picture of one bar says little
    async with looked_at(url) as database:
        found = await answered(database, Question(scope, by))
    if found.is_empty:
        raise NothingFound(_nothing(scope))
    return _WRITTEN[form](found)


async def _ranking(url: str, wish: Wish, scope: Scope, form: Format) -> str:
    what = asking.one_of("--list", wish.what or "", WHATS)
    sort = asking.one_of("--sort", wish.sort, asking.SORTS)
    if wish.by is not None or form == "png":
        raise QuestionRefused(
            "--list shows turns or calls one by one: it goes with neither --by nor --format png."
        )
    async with looked_at(url) as database:
        section, found = await _ranked(database, what, scope, sort, wish.top or TOP)
    if not found:
        raise NothingFound(_nothing(scope))
    return _listed(form, section, found)


async def changed(url: str, wish: Wish, *, now: float) -> str:
    """What admins changed, in the wanted format; of the wish count the span of time, the user, the format and
    `top`.
    """
    scope = asking.scope(wish.since, wish.until, wish.chat, wish.user, wish.model, now=now)
    form = asking.one_of("--format", wish.form, FORMATS)
    if form == "png" or wish.sort != SORT or {wish.chat, wish.model, wish.by, wish.what} != {None}:
        raise QuestionRefused(
            "report audit goes with --since, --until, --user, --top, --format and --out alone."
        )
    async with looked_at(url) as database, database.reading() as tx:
        found = await audit.changes(tx, since=scope.since, until=scope.until, who=scope.user, most=wish.top)
    if not found:
        raise NothingFound("No admin has changed anything that this asks for.")
    return _listed(form, changes.section(found), changes.records(found))


def _listed(form: Format, section: Section, found: list[Record]) -> str:
    match form:
        case "csv":
            return formats.as_csv(found)
        case "json":
            return formats.as_json(found)
        case "md":
            return formats.as_markdown([section], [])
    return formats.as_table([section], [])


async def step_by_step(url: str, written: str, *, texts: bool, json: bool, now: float) -> str:
    """One turn, by its id as it is written; that its texts were read is written down before they are shown."""
    number = asking.turn_id(written)
    async with looked_at(url) as database, database.reading() as tx:
        found = await steps(tx, number, texts=texts)
    if found is None:
        raise NothingFound(
            f"There is no turn {number}. `canvasgram report --list turns` shows those there are."
        )
    if texts:
        async with connected(url) as database, database.transaction() as tx:
            await audit.note(tx, audit.MACHINE, "texts read", f"turn {number}", change=(None, None), now=now)
    if json:
        return turn.as_json(found)
    return "\n".join(turn.lines(found))


async def _ranked(
    database: Database, what: What, scope: Scope, sort: Sort, top: int
) -> tuple[Section, list[Record]]:
    async with database.reading() as tx:
        if what == "turns":
            some = await rankings.ranked_turns(tx, scope, sort, top)
            return lists.turns(some, sort), lists.records(some)
        calls = await rankings.calls(tx, scope, sort, top)
        return lists.calls(calls, sort), lists.records(calls)


def _nothing(scope: Scope) -> str:
    if scope.is_everything:
        return "There is nothing in the ledger yet."
    return "There is nothing in the ledger for this."


def _picture(found: Report) -> bytes:
    return charts.drawn(charts.chart(found, next(figures.notes(found)).partition(" Canvases")[0]))


_WRITTEN: dict[Format, Callable[[Report], str | bytes]] = {
    "table": lambda found: formats.as_table(figures.sections(found), figures.notes(found)),
    "md": lambda found: formats.as_markdown(figures.sections(found), figures.notes(found)),
    "csv": lambda found: formats.as_csv(records.records(found)),
    "json": lambda found: formats.as_json(records.whole(found)),
    "png": _picture,
}
