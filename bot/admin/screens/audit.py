"""Audit: the record of changes, backups and settings, and what can be checked of our figures."""

from dataclasses import replace

import htpy as h

from bot.admin.components import (
    PERIOD_NAMES,
    TURNS_PATH,
    format_duration,
    hide_query,
    keep_period,
    show_figure,
    show_figures,
)
from bot.admin.filter_form import show_periods
from bot.admin.filters import parse_filters
from bot.admin.keyset_pages import PAGE_ROWS, Cursor, cut_page, parse_cursor, show_pager
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.record_tables import (
    StoredBackup,
    build_backups,
    build_changes,
    build_readings,
    build_settings_table,
    build_unknown_usage,
    format_size,
)
from bot.admin.stored_bench import build_bench_table, find_bench_file, load_bench, show_conditions
from bot.admin.table_view import show_table, show_tables
from bot.db.database_url import find_data_folder
from bot.db.maintenance.backup import read_made_at
from bot.db.people import people
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.tools import audit
from bot.db.usage import counter_readings, report_sums
from bot.db.usage.usage_sums import Scope, ServerSums
from bot.errors import QuestionRefused
from bot.maintenance.backup import build_backup_directory
from bot.settings import Settings
from bot.usage.figures import format_count, format_steps
from bot.usage.reconcile import SUMS_AGREE
from tools.threads import run_in_thread

NEWEST_ROWS = 10  # of a list that has a page of its own
MAX_FILTER_CHARACTERS = 200
AUDIT_PATH = f"{ADMIN_PATH}/audit"
READINGS_PATH = f"{AUDIT_PATH}/readings"
CHANGES_PATH = f"{AUDIT_PATH}/changes"


async def show_audit(request: PageRequest) -> ScreenPage:
    """The screen: of each list the newest rows."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    scope = Scope(filters.period.since, filters.period.until, zone=request.zone.key)
    async with request.read() as tx:
        server = await counter_readings.sum_server_counters(tx, scope)
        readings = await counter_readings.list_newest(tx, scope, NEWEST_ROWS)
        unknown = await report_sums.sum_unknown_usage(tx, scope)
        changes = await audit.list_entries(tx, since=scope.since, until=scope.until, limit=NEWEST_ROWS)
        names = await people.list_names(tx)
    settings = request.dependencies.settings
    backups = await run_in_thread(list_backups, settings)
    bench = await run_in_thread(load_bench, find_bench_file(find_data_folder(settings.database_url)))
    tables = [
        build_changes(changes, names, CHANGES_PATH, request.zone),
        build_backups(backups, request.zone, request.now),
        build_readings(readings, request.zone),
        build_unknown_usage(
            unknown, lambda count, why: keep_period(request, TURNS_PATH, unknown=count, why=why)
        ),
        build_bench_table(bench),
    ]
    body = [
        show_periods(request, filters.period.name),
        _show_figures(request, server, sum(usage.calls for usage in unknown), backups),
        h.p[
            h.a(href=f"{AUDIT_PATH}/settings")["Settings in force"],
            " · ",
            h.a(href=keep_period(request, CHANGES_PATH))["All changes of this time"],
            " · ",
            h.a(href=keep_period(request, READINGS_PATH))["All readings of this time"],
        ],
        show_tables(request, tables),
        show_conditions(bench),
    ]
    return ScreenPage("Audit", body, tables)


async def show_settings(request: PageRequest) -> ScreenPage:
    """The settings in force: those that are set, then the defaults, folded."""
    table = build_settings_table(request.dependencies.settings)
    chosen, defaults = (
        replace(
            table,
            name=source,
            title=title,
            rows=tuple(row for row in table.rows if row[-1].value == source),
            nothing="None is set.",
        )
        for source, title in (("set", "Set"), ("default", "Defaults"))
    )
    note = None
    if request.dependencies.gateway is None:
        note = h.p["These are the settings of this command. Those of a running gateway may differ."]
    body = [
        note,
        show_table(chosen, request),
        h.details[
            h.summary[f"{len(defaults.rows)} have their defaults"],
            show_table(defaults, request),
        ],
    ]
    return ScreenPage("Settings in force", body, [table])


async def show_readings(request: PageRequest) -> ScreenPage:
    """The readings of a time, page by page; `only=gaps`: those whose sums differ."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    cursor = parse_cursor(request.query.get("before"))
    until = filters.period.until if cursor is None else min(filters.period.until, cursor.at)
    only = request.query.get("only", "")
    if only not in {"", "gaps"}:
        raise QuestionRefused("Readings are shown all, or with ?only=gaps.")
    scope = Scope(filters.period.since, until, zone=request.zone.key)
    except_why = SUMS_AGREE if only else None
    async with request.read() as tx:
        rows = await counter_readings.list_newest(tx, scope, PAGE_ROWS + 1, except_why=except_why)
    # No two are read at the same moment, so the time alone says where a page begins.
    page = cut_page(rows, lambda reading: Cursor(reading.read_at, 0))
    table = build_readings(page.rows, request.zone)
    choice = h.p[
        h.a(href=keep_period(request, request.path))["All"],
        " · ",
        h.a(href=keep_period(request, request.path, only="gaps"))["Only those that differ"],
    ]
    body = [
        show_periods(request, filters.period.name),
        choice,
        show_table(table, request),
        show_pager(request, page),
    ]
    return ScreenPage("Readings of the server's counters", body, [table])


async def show_changes(request: PageRequest) -> ScreenPage:
    """What admins changed, page by page; by person, by what was done, and to what."""
    filters = parse_filters(request.query, zone=request.zone, now=request.now)
    cursor = parse_cursor(request.query.get("before"))
    async with request.read() as tx:
        rows = await audit.list_entries(
            tx,
            since=filters.period.since,
            until=filters.period.until,
            person=filters.scope.user,
            action=_parse_text(request, "what"),
            subject=_parse_text(request, "subject"),
            before=cursor.id if cursor else None,
            limit=PAGE_ROWS + 1,
        )
        names = await people.list_names(tx)
    page = cut_page(rows, lambda change: Cursor(change.at, change.id))
    table = build_changes(page.rows, names, request.path, request.zone)
    fields = [
        h.label[label, h.input(type="text", name=name, value=request.query.get(name, ""))]
        for name, label in (("user", "Person (number)"), ("what", "What"), ("subject", "Subject"))
    ]
    form = h.form(".filters", method="get", action=request.path)[
        hide_query(request, PERIOD_NAMES),
        fields,
        h.button["Show"],
        h.a(href=request.path)["Clear"],
    ]
    body = [
        show_periods(request, filters.period.name),
        form,
        show_table(table, request),
        show_pager(request, page),
    ]
    return ScreenPage("Changes by admins", body, [table])


def list_backups(settings: Settings) -> list[StoredBackup]:
    """The backups in BACKUP_DIR, the newest first."""
    backup_directory = build_backup_directory(settings)
    files = [] if backup_directory is None else backup_directory.list_backups()
    return [StoredBackup(file.name, read_made_at(file), file.stat().st_size) for file in reversed(files)]


def _parse_text(request: PageRequest, name: str) -> str | None:
    return request.query.get(name, "")[:MAX_FILTER_CHARACTERS] or None


def _show_figures(
    request: PageRequest, server: ServerSums, unknown_calls: int, backups: list[StoredBackup]
) -> h.Element:
    return show_figures(
        show_figure(
            "Readings compared", format_count(server.readings), href=keep_period(request, READINGS_PATH)
        ),
        show_figure(
            "Counted beyond ours",
            format_count(server.gap),
            note="tokens of the server; below zero: fewer",
            href=keep_period(request, READINGS_PATH, only="gaps"),
        ),
        request.output_unit.has_canvases
        and show_figure(
            "Steps a canvas",
            format_steps(server.steps_per_canvas),
            note="the server's average, whoever asked",
        ),
        show_figure(
            "Calls that lack a count",
            format_count(unknown_calls),
            note="of input, cached, output or thought tokens; Usage counts those of unknown output",
            href=keep_period(request, TURNS_PATH, unknown="any") if unknown_calls else None,
        ),
        _show_last_backup(request, backups),
    )


def _show_last_backup(request: PageRequest, backups: list[StoredBackup]) -> h.Element:
    if request.dependencies.settings.backup_dir is None:
        return show_figure("Last backup", "none", note="BACKUP_DIR is unset")
    if not backups:
        return show_figure("Last backup", "none yet")
    age = format_duration(request.now - backups[0].made_at)
    return show_figure("Last backup", f"{age} ago", note=format_size(backups[0].size), href="#backups")


SCREEN = Screen(
    "audit",
    "Audit",
    8,
    {"": show_audit, "/readings": show_readings, "/changes": show_changes, "/settings": show_settings},
)
