"""The answers of `canvasgram report`, `report audit` and `turn`: reads the database and renders the result.

Raises a CanvasgramError for whatever cannot be answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bot.db.engine import Database, open_database
from bot.db.people import people
from bot.db.readonly import open_readonly
from bot.db.tools import audit
from bot.db.usage import counter_readings, report_sums, speeches
from bot.db.usage import rankings as ranking_rows
from bot.db.usage.rankings import Sort
from bot.db.usage.turn_steps import load_steps
from bot.db.usage.usage_sums import Scope
from bot.errors import NothingFound, QuestionRefused
from bot.tables import Line, TextTable
from bot.usage import (
    audit_report,
    counter_report,
    formats,
    json_records,
    rankings,
    tables,
    thinking_report,
    turn_report,
)
from bot.usage.headline import build_lines as build_headline
from bot.usage.json_records import JsonRecord
from bot.usage.plain_text import escape_lines
from bot.usage.queries import load_report
from bot.usage.query_args import (
    GROUPINGS,
    SORTS,
    parse_call_filters,
    parse_choice,
    parse_scope,
    parse_turn_id,
)
from bot.usage.report import Grouping, ReportQuery, UsageReport, name_people

ReportFormat = Literal["table", "csv", "json"]
ListKind = Literal["turns", "calls", "readings"]
DEFAULT_TOP = 20
DEFAULT_SORT: Sort = "tokens"
FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
LIST_KINDS: tuple[ListKind, ...] = get_args(ListKind)

Rendered = str | list[Line]
"""A whole text, or lines and tables that a terminal lays out."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of a report as they were typed.

    `what` is turns or calls for a list of the `top` ones by `sort`, readings for the newest, else None. `top`
    None: the default, which is 20 of a list, and all changes by admins. Times and days are those of `zone`;
    times for machines are in UTC.
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
    zone: str = "UTC"
    endpoint: str | None = None
    tool: str | None = None
    purpose: str | None = None
    thinking: str | None = None


async def render_report(url: str, options: ReportOptions, *, now: float) -> Rendered:
    """The report in the requested format.

    Raises QuestionRefused, NothingFound, or the reason why the database cannot be read.
    """
    scope = _parse_scope(options, now)
    form = parse_choice("--format", options.form, FORMATS)
    if options.what is not None:
        return await _render_ranking(url, options, scope, form)
    if options.top is not None or options.sort != DEFAULT_SORT:
        raise QuestionRefused("--top goes with --list, --sort with --list turns or --list calls.")
    by: Grouping | None = None
    if options.by is not None:
        by = parse_choice("--by", options.by, GROUPINGS)
    async with open_readonly(url) as database, database.long_read_transaction() as tx:
        report = await load_report(tx, ReportQuery(scope, by))
        if report.is_empty:
            raise NothingFound(_nothing_found_message(scope))
        if form == "csv":
            columns = json_records.list_record_fields(report.query.by or "group")
            return formats.render_csv(json_records.build_records(report), columns)
        if form == "json":
            return formats.render_json(json_records.build_report_object(report))
        names = await people.list_names(tx)
        calls_by_person = await report_sums.sum_calls(tx, scope, "user")
        speech_sums = await speeches.sum_speeches(tx, scope)
    headline = list(build_headline(report, calls_by_person, names, speech_sums))
    return _render_table(name_people(report, names), headline)


async def render_audit(url: str, options: ReportOptions, *, now: float) -> Rendered:
    """What admins changed, in the requested format.

    Of the options only the time, the user, the format and `top` may be given. Raises as `render_report`.
    """
    scope = _parse_scope(options, now)
    form = parse_choice("--format", options.form, FORMATS)
    is_of_one_person = scope == Scope(scope.since, scope.until, user=scope.user, zone=scope.zone)
    has_other_filter = not is_of_one_person or options.by is not None or options.what is not None
    if options.sort != DEFAULT_SORT or has_other_filter:
        raise QuestionRefused(
            "report audit goes with --since, --until, --user, --top, --format and --out alone."
        )
    async with open_readonly(url) as database, database.long_read_transaction() as tx:
        names = await people.list_names(tx)
        entries = await audit.list_entries(
            tx, since=scope.since, until=scope.until, person=scope.user, limit=options.top
        )
    if not entries:
        raise NothingFound("No admin has changed anything that this asks for.")
    return _render_list(
        form, audit_report.build_section(entries, names, scope.zone), audit_report.build_records(entries)
    )


async def render_turn(
    url: str, turn_id_text: str, *, with_texts: bool, as_json: bool, now: float
) -> Rendered:
    """One turn by its id; that its texts were read is recorded in the audit log before they are shown."""
    turn_id = parse_turn_id(turn_id_text)
    async with open_readonly(url) as database, database.long_read_transaction() as tx:
        turn = await load_steps(tx, turn_id, with_texts=with_texts)
        names = await people.list_names(tx)
        unit = await counter_readings.find_output_unit(tx)
    if turn is None:
        raise NothingFound(
            f"There is no turn {turn_id}. `canvasgram report --list turns` shows those there are."
        )
    if with_texts:
        async with open_database(url) as database, database.transaction() as tx:
            await audit.record_texts_read(tx, audit.MACHINE, turn_id, reason=None, now=now)
    if as_json:
        return turn_report.render_json(turn)
    return [*escape_lines(turn_report.render_lines(turn, names, unit=unit))]


def _parse_scope(options: ReportOptions, now: float) -> Scope:
    scope = parse_scope(
        options.since,
        options.until,
        options.chat,
        options.user,
        options.model,
        zone=options.zone,
        now=now,
    )
    return parse_call_filters(scope, options.endpoint, options.tool, options.purpose, options.thinking)


async def _render_ranking(url: str, options: ReportOptions, scope: Scope, form: ReportFormat) -> Rendered:
    kind = parse_choice("--list", options.what or "", LIST_KINDS)
    sort = parse_choice("--sort", options.sort, SORTS)
    if options.by is not None:
        raise QuestionRefused("--list shows things one by one: it does not go with --by.")
    if kind == "readings" and (sort != DEFAULT_SORT or not scope.is_everybody):
        raise QuestionRefused(
            "--list readings shows the newest of all users: it goes with --since, --until and --top alone."
        )
    async with open_readonly(url) as database:
        section, records = await _load_ranking(database, kind, scope, sort, options.top or DEFAULT_TOP)
        async with database.read_transaction() as tx:
            if not (await counter_readings.find_output_unit(tx)).has_canvases:
                section = section.leave_out_canvases()
    if not records:
        raise NothingFound(_nothing_found_message(scope))
    return _render_list(form, section, records)


async def _load_ranking(
    database: Database, kind: ListKind, scope: Scope, sort: Sort, limit: int
) -> tuple[TextTable, list[JsonRecord]]:
    async with database.long_read_transaction() as tx:
        if kind == "readings":
            readings = await counter_readings.list_newest(tx, scope, limit)
            return counter_report.build_section(readings, scope.zone), counter_report.build_records(readings)
        names = await people.list_names(tx)
        if kind == "turns":
            turns = await ranking_rows.rank_turns(tx, scope, sort, limit)
            return rankings.build_turn_section(turns, sort, names, scope.zone), rankings.build_turn_records(
                turns
            )
        calls = await ranking_rows.rank_calls(tx, scope, sort, limit)
        return rankings.build_call_section(calls, sort, names, scope.zone), rankings.build_call_records(calls)


def _render_list(form: ReportFormat, section: TextTable, records: list[JsonRecord]) -> Rendered:
    match form:
        case "csv":
            return formats.render_csv(records)
        case "json":
            return formats.render_json(records)
    return [*escape_lines([section])]


def _nothing_found_message(scope: Scope) -> str:
    if scope.is_everything:
        return "There is nothing in the ledger yet."
    return "There is nothing in the ledger for this."


def _render_table(report: UsageReport, headline: Sequence[str]) -> Rendered:
    lines: list[Line] = [*headline, ""]
    for section in _build_sections(report):
        lines += [section, ""]
    notes = [*thinking_report.build_notes(report), *tables.build_notes(report)]
    return [*escape_lines([*lines, *notes])]


def _build_sections(report: UsageReport) -> list[TextTable]:
    sections = [*thinking_report.build_sections(report), *tables.build_sections(report)]
    if report.output_unit.has_canvases:
        return sections
    return [section.leave_out_canvases() for section in sections]
