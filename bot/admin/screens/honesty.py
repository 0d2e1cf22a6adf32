"""Honesty: what can be checked of our figures, and the record of changes, backups and settings."""

from dataclasses import replace
from pathlib import Path

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    build_url,
    format_duration,
    show_figure,
    show_figures,
    show_section,
)
from bot.admin.data_table import Cell, DataTable, export_table, pick_table, show_exports, show_table
from bot.admin.filter_form import show_periods
from bot.admin.filters import parse_filters
from bot.admin.keyset_pages import PAGE_ROWS, Cursor, KeysetPage, parse_cursor, show_pager
from bot.admin.page_request import Content, PageRequest, Screen, ScreenPage
from bot.admin.record_tables import (
    StoredBackup,
    build_backups,
    build_changes,
    build_readings,
    build_settings_table,
    build_unknown_usage,
    format_size,
)
from bot.admin.stored_bench import (
    StoredBench,
    build_bench_table,
    find_bench_file,
    load_bench,
    show_conditions,
)
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
READINGS_PATH = f"{ADMIN_PATH}/honesty/readings"
CHANGES_PATH = f"{ADMIN_PATH}/honesty/changes"
SETTINGS_PATH = f"{ADMIN_PATH}/honesty/settings"
_PERIOD_NAMES = ("period", "from", "to")


async def show_honesty(request: PageRequest) -> Content:
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
    bench = await run_in_thread(load_bench, _find_bench_file(settings))
    readings_table = build_readings(readings, request.zone)
    changes_table = build_changes(changes, names, CHANGES_PATH, request.zone)
    unknown_table = build_unknown_usage(
        unknown, lambda count, why: _keep_period(request, TURNS_PATH, unknown=count, why=why)
    )
    backups_table = build_backups(backups, request.zone, request.now)
    tables = [readings_table, unknown_table, changes_table, backups_table]
    if isinstance(bench, StoredBench):
        tables.append(build_bench_table(bench))
    if request.export:
        return export_table(pick_table(tables, request.query.get("table")), request.export)
    body = [
        show_periods(request, filters.period.name),
        _show_figures(request, server, sum(usage.calls for usage in unknown), backups),
        show_table(readings_table, request, with_exports=False),
        _link_to_all(request, READINGS_PATH, "All readings of this time"),
        show_table(unknown_table, request, with_exports=False),
        show_table(changes_table, request, with_exports=False),
        _link_to_all(request, CHANGES_PATH, "All changes of this time"),
        show_table(backups_table, request, with_exports=False),
        _show_bench(request, bench),
        show_exports(request, tables),
        h.p[h.a(href=SETTINGS_PATH)["Settings in force"]],
    ]
    return ScreenPage("Honesty", body)


async def show_settings(request: PageRequest) -> Content:
    """The settings in force: those that are set, then the defaults, folded."""
    table = build_settings_table(request.dependencies.settings)
    if request.export:
        return export_table(table, request.export)
    chosen, defaults = (
        replace(table, name=source, title=title, rows=_pick_settings(table, source), nothing="None is set.")
        for source, title in (("set", "Set"), ("default", "Defaults"))
    )
    note = None
    if request.dependencies.gateway is None:
        note = h.p["These are the settings of this command. Those of a running gateway may differ."]
    body = [
        note,
        show_table(chosen, request, with_exports=False),
        h.details[
            h.summary[f"{len(defaults.rows)} have their defaults"],
            show_table(defaults, request, with_exports=False),
        ],
        show_exports(request, [table]),
    ]
    return ScreenPage("Settings in force", body)


def _pick_settings(table: DataTable, source: str) -> tuple[tuple[Cell, ...], ...]:
    """The rows of what was set, or has its default."""
    return tuple(row for row in table.rows if row[-1].value == source)


async def show_readings(request: PageRequest) -> Content:
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
    has_more = len(rows) > PAGE_ROWS
    rows = rows[:PAGE_ROWS]
    # No two are read at the same moment, so the time alone says where a page begins.
    page = KeysetPage(tuple(rows), Cursor(rows[-1].read_at, 0) if has_more else None)
    table = build_readings(page.rows, request.zone)
    if request.export:
        return export_table(table, request.export)
    choice = h.p[
        h.a(href=_keep_period(request, request.path))["All"],
        " · ",
        h.a(href=_keep_period(request, request.path, only="gaps"))["Only those that differ"],
    ]
    body = [show_periods(request, filters.period.name), choice, show_table(table, request)]
    return ScreenPage("Readings of the server's counters", [*body, show_pager(request, page)])


async def show_changes(request: PageRequest) -> Content:
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
    has_more = len(rows) > PAGE_ROWS
    rows = rows[:PAGE_ROWS]
    page = KeysetPage(tuple(rows), Cursor(rows[-1].at, rows[-1].id) if has_more else None)
    table = build_changes(page.rows, names, request.path, request.zone)
    if request.export:
        return export_table(table, request.export)
    fields = [
        h.label[label, h.input(type="text", name=name, value=request.query.get(name, ""))]
        for name, label in (("user", "Person (number)"), ("what", "What"), ("subject", "Subject"))
    ]
    kept = (
        h.input(type="hidden", name=name, value=request.query[name])
        for name in _PERIOD_NAMES
        if name in request.query
    )
    form = h.form(".filters", method="get", action=request.path)[
        kept,
        fields,
        h.button["Show"],
        h.a(href=request.path)["Clear"],
    ]
    body = [show_periods(request, filters.period.name), form, show_table(table, request)]
    return ScreenPage("Changes by admins", [*body, show_pager(request, page)])


def list_backups(settings: Settings) -> list[StoredBackup]:
    """The backups in BACKUP_DIR, the newest first."""
    backup_directory = build_backup_directory(settings)
    files = [] if backup_directory is None else backup_directory.list_backups()
    return [StoredBackup(file.name, read_made_at(file), file.stat().st_size) for file in reversed(files)]


def _find_bench_file(settings: Settings) -> Path:
    return find_bench_file(find_data_folder(settings.database_url))


def _parse_text(request: PageRequest, name: str) -> str | None:
    return request.query.get(name, "")[:MAX_FILTER_CHARACTERS] or None


def _show_figures(
    request: PageRequest, server: ServerSums, unknown_calls: int, backups: list[StoredBackup]
) -> h.Element:
    return show_figures(
        show_figure(
            "Readings compared", format_count(server.readings), href=_keep_period(request, READINGS_PATH)
        ),
        show_figure(
            "Counted beyond ours",
            format_count(server.gap),
            note="tokens of the server; below zero: fewer",
            href=_keep_period(request, READINGS_PATH, only="gaps"),
        ),
        show_figure(
            "Steps a canvas",
            format_steps(server.steps_per_canvas),
            note="the server's average, whoever asked",
        ),
        show_figure(
            "Calls that lack a count",
            format_count(unknown_calls),
            note="of input, cached, output or thought tokens; Usage counts those of unknown output",
            href=_keep_period(request, TURNS_PATH, unknown="any") if unknown_calls else None,
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


def _keep_period(request: PageRequest, path: str, **query: str) -> str:
    kept = {name: request.query[name] for name in _PERIOD_NAMES if name in request.query}
    return build_url(path, kept | query)


def _link_to_all(request: PageRequest, path: str, text: str) -> h.Element:
    return h.p[h.a(href=_keep_period(request, path))[text]]


def _show_bench(request: PageRequest, bench: StoredBench | str) -> h.Node:
    if isinstance(bench, str):
        return show_section("Measured directly and through the gateway", h.p(".nothing")[bench])
    return [show_table(build_bench_table(bench), request, with_exports=False), show_conditions(bench)]


SCREEN = Screen(
    "honesty",
    "Honesty",
    8,
    {"": show_honesty, "/readings": show_readings, "/changes": show_changes, "/settings": show_settings},
)
