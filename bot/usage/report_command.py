"""What `canvasgram report`, `report audit` and `turn` answer: looks at the database and writes out what it
finds.

Raises errors of the house for whatever cannot be answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from bot.db.engine import Database, open_database
from bot.db.readonly import open_readonly
from bot.db.tools import audit
from bot.db.usage import rankings
from bot.db.usage.rankings import Sort
from bot.db.usage.turn_steps import load_steps
from bot.db.usage.usage_sums import Scope
from bot.errors import NothingFound, QuestionRefused
from bot.usage import audit_report as changes
from bot.usage import charts, formats
from bot.usage import json_records as records
from bot.usage import query_args as asking
from bot.usage import rankings as lists
from bot.usage import tables as figures
from bot.usage import turn_report as turn
from bot.usage.json_records import JsonRecord
from bot.usage.queries import load_report
from bot.usage.report import ReportQuery, UsageReport
from bot.usage.tables import ReportSection

ReportFormat = Literal["table", "csv", "json", "md", "png"]
ListKind = Literal["turns", "calls"]
DEFAULT_TOP = 20
DEFAULT_SORT: Sort = "tokens"
FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
LIST_KINDS: tuple[ListKind, ...] = get_args(ListKind)


@dataclass(frozen=True, slots=True)
class ReportOptions:
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
    sort: str = DEFAULT_SORT


async def render_report(url: str, options: ReportOptions, *, now: float) -> str | bytes:
    """The answer in the wanted format. Raises QuestionRefused, NothingFound, or why the database cannot be
    read.
    """
    scope = asking.parse_scope(
        options.since, options.until, options.chat, options.user, options.model, now=now
    )
    form = asking.parse_choice("--format", options.form, FORMATS)
    if options.what is not None:
        return await _render_ranking(url, options, scope, form)
    if options.top is not None or options.sort != DEFAULT_SORT:
        raise QuestionRefused("--top and --sort go with --list turns or --list calls.")
    by = None if options.by is None else asking.parse_choice("--by", options.by, asking.GROUPINGS)
    if form == "png" and by is None:
        by = "day"  # a picture of one bar says little
    async with open_readonly(url) as database:
        found = await load_report(database, ReportQuery(scope, by))
    if found.is_empty:
        raise NothingFound(_nothing_found_message(scope))
    return _RENDERERS[form](found)


async def _render_ranking(url: str, options: ReportOptions, scope: Scope, form: ReportFormat) -> str:
    what = asking.parse_choice("--list", options.what or "", LIST_KINDS)
    sort = asking.parse_choice("--sort", options.sort, asking.SORTS)
    if options.by is not None or form == "png":
        raise QuestionRefused(
            "--list shows turns or calls one by one: it goes with neither --by nor --format png."
        )
    async with open_readonly(url) as database:
        section, found = await _load_ranking(database, what, scope, sort, options.top or DEFAULT_TOP)
    if not found:
        raise NothingFound(_nothing_found_message(scope))
    return _render_list(form, section, found)


async def render_audit(url: str, options: ReportOptions, *, now: float) -> str:
    """What admins changed, in the wanted format; of the wish count the span of time, the user, the format and
    `top`.
    """
    scope = asking.parse_scope(
        options.since, options.until, options.chat, options.user, options.model, now=now
    )
    form = asking.parse_choice("--format", options.form, FORMATS)
    if (
        form == "png"
        or options.sort != DEFAULT_SORT
        or {options.chat, options.model, options.by, options.what} != {None}
    ):
        raise QuestionRefused(
            "report audit goes with --since, --until, --user, --top, --format and --out alone."
        )
    async with open_readonly(url) as database, database.read_transaction() as tx:
        found = await audit.list_entries(
            tx, since=scope.since, until=scope.until, person=scope.user, limit=options.top
        )
    if not found:
        raise NothingFound("No admin has changed anything that this asks for.")
    return _render_list(form, changes.build_section(found), changes.build_records(found))


def _render_list(form: ReportFormat, section: ReportSection, rows: list[JsonRecord]) -> str:
    match form:
        case "csv":
            return formats.render_csv(rows)
        case "json":
            return formats.render_json(rows)
        case "md":
            return formats.render_markdown([section], [])
    return formats.render_table([section], [])


async def render_turn(url: str, turn_id_text: str, *, with_texts: bool, as_json: bool, now: float) -> str:
    """One turn, by its id as it is written; that its texts were read is written down before they are shown."""
    number = asking.parse_turn_id(turn_id_text)
    async with open_readonly(url) as database, database.read_transaction() as tx:
        found = await load_steps(tx, number, with_texts=with_texts)
    if found is None:
        raise NothingFound(
            f"There is no turn {number}. `canvasgram report --list turns` shows those there are."
        )
    if with_texts:
        async with open_database(url) as database, database.transaction() as tx:
            await audit.record(
                tx, audit.MACHINE, "texts read", f"turn {number}", change=(None, None), now=now
            )
    if as_json:
        return turn.render_json(found)
    return "\n".join(turn.render_lines(found))


async def _load_ranking(
    database: Database, kind: ListKind, scope: Scope, sort: Sort, limit: int
) -> tuple[ReportSection, list[JsonRecord]]:
    async with database.read_transaction() as tx:
        if kind == "turns":
            some = await rankings.rank_turns(tx, scope, sort, limit)
            return lists.build_turn_section(some, sort), lists.build_records(some)
        calls = await rankings.rank_calls(tx, scope, sort, limit)
        return lists.build_call_section(calls, sort), lists.build_records(calls)


def _nothing_found_message(scope: Scope) -> str:
    if scope.is_everything:
        return "There is nothing in the ledger yet."
    return "There is nothing in the ledger for this."


def _render_picture(report: UsageReport) -> bytes:
    return charts.draw_png(
        charts.build_chart(report, next(figures.build_notes(report)).partition(" Canvases")[0])
    )


_RENDERERS: dict[ReportFormat, Callable[[UsageReport], str | bytes]] = {
    "table": lambda found: formats.render_table(figures.build_sections(found), figures.build_notes(found)),
    "md": lambda found: formats.render_markdown(figures.build_sections(found), figures.build_notes(found)),
    "csv": lambda found: formats.render_csv(records.build_records(found)),
    "json": lambda found: formats.render_json(records.build_report_object(found)),
    "png": _render_picture,
}
