"""Now: the endpoint, who holds a seat and who waits, and what wants an admin's attention."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import htpy as h

from bot.admin.access_acts import PEOPLE_PATH
from bot.admin.components import (
    TURNS_PATH,
    build_url,
    cut,
    format_duration,
    live_part,
    show_figure,
    show_nothing,
    show_section,
    show_time,
)
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.names import name_lane, name_person
from bot.admin.page_request import Fragment, PageRequest, RunningGateway, Screen, ScreenPage
from bot.admin.replica_table import build_replica_table, list_replicas
from bot.admin.svg_chart import FAULT_MARK
from bot.admin.table_view import build_seconds_cell, show_tables
from bot.admin.tool_pages import TOOLS_PATH, build_tool_path
from bot.db.people import people
from bot.db.queues.current_work import SIGN_OF_LIFE_SECONDS, CurrentWork, load_current_work
from bot.db.usage.call_filters import ANY_FAILURE
from bot.domain import PEOPLE_PRIORITY, SUMMARIES_PRIORITY, TASKS_PRIORITY, WARMUP_PRIORITY
from bot.llm.endpoint_watch import EndpointWatch
from bot.llm.seats import Seats

MAX_NOTICE_CHARACTERS = 240
_LANE = re.compile(r"-?[0-9]{1,18}(?::[0-9]{1,18})?", re.ASCII)
_PRIORITY_NAMES = {
    PEOPLE_PRIORITY: "a person",
    TASKS_PRIORITY: "a task",
    SUMMARIES_PRIORITY: "a summary",
    WARMUP_PRIORITY: "the warm-up",
}


@dataclass(frozen=True, slots=True)
class SeatRow:
    """A seat of an endpoint with who holds it, or a place in its queue; `since` None: the seat is free."""

    endpoint: str
    place: str
    lane: str | None
    purpose: str
    since: float | None
    is_waiting: bool = False


async def show_now(request: PageRequest) -> ScreenPage:
    """The screen, which refreshes itself."""
    return ScreenPage("Now", live_part(f"{request.path}/live", await _load_body(request)))


async def show_live(request: PageRequest) -> Fragment:
    """What is refreshed of it."""
    return Fragment(await _load_body(request))


async def _load_body(request: PageRequest) -> h.Node:
    gateway = request.dependencies.gateway
    seats = [] if gateway is None else await _load_seats(gateway)
    async with request.read_briefly() as tx:  # every two seconds, as long as the screen is open
        work = await load_current_work(tx, now=request.now)
        names = await people.list_names(tx)
    return _build_body(request, work, names, seats)


async def _load_seats(gateway: RunningGateway) -> list[SeatRow]:
    """The seats of each endpoint, as all replicas hold them."""
    for limiter in gateway.seats.values():
        await limiter.refresh()
    return [row for name, limiter in gateway.seats.items() for row in _list_seats(name, limiter)]


def _list_seats(endpoint: str, limiter: Seats) -> list[SeatRow]:
    rows = []
    for number in range(1, limiter.count + 1):
        call = limiter.holders.get(number)
        if call is None:
            rows.append(SeatRow(endpoint, f"seat {number}", None, "free", None))
        else:
            purpose = _PRIORITY_NAMES.get(call.priority, "")
            rows.append(SeatRow(endpoint, f"seat {number}", call.lane, purpose, call.since))
    for place, call in enumerate(limiter.list_waiting(), start=1):
        purpose = _PRIORITY_NAMES.get(call.priority, "")
        rows.append(SeatRow(endpoint, f"waits, place {place}", call.lane, purpose, call.since, True))
    return rows


def _build_body(
    request: PageRequest, work: CurrentWork, names: Mapping[int, str], seats: Sequence[SeatRow]
) -> h.Node:
    """How it is, then what is not empty; the seats are known in the gateway's own process alone."""
    tables = [
        _build_running(request, work, names),
        _build_waiting(request, work, names),
        _build_unknown(request, work, names),
        _build_approvals(request, work, names),
        _build_jobs(request, work),
    ]
    if any(seat.since is not None for seat in seats):
        tables.insert(0, _build_seats(request, seats, names))
    replicas = list_replicas(request.dependencies.gateway, work, request.now)
    if replicas:
        tables.append(build_replica_table(replicas, request.now))
    empty = ", ".join(table.nothing for table in tables if not table.rows)
    return [
        _show_state(request, work, seats),
        _show_figures(request, work, seats),
        show_tables(request, (table for table in tables if table.rows)),
        _show_notices(work, request.zone),
        show_nothing(f"Besides, {empty}.") if empty else None,
    ]


def _show_state(request: PageRequest, work: CurrentWork, seats: Sequence[SeatRow]) -> h.Element:
    """One line: whether the model answers, since when, and the seats; else whether the gateway runs."""
    gateway = request.dependencies.gateway
    mark, style = "●", "good"
    if gateway is None:
        is_well = _is_running(work, request.now)
        parts = [f"The gateway {_describe_gateway(work, request.now)}", "seats: only on its own page"]
    else:
        watch = gateway.endpoint_watch
        is_well = watch.is_up or watch.since is None
        mark = "○" if watch.since is None else mark
        count = sum(not seat.is_waiting for seat in seats)
        in_use = sum(not seat.is_waiting and seat.since is not None for seat in seats)
        parts = [_describe_endpoint(watch, request.now)]
        if count:
            parts.append(f"{in_use} of {count} seats in use")
    if not is_well:
        mark, style = FAULT_MARK, "bad"
    if not work.failed:
        parts.append("no turn failed in 24 hours")
    if mark == "●" and not work.failed and not work.unknown:
        parts.insert(0, "All is well")
    return h.p(f".state.{style}")[f"{mark} {' · '.join(parts)}"]


def _show_figures(request: PageRequest, work: CurrentWork, seats: Sequence[SeatRow]) -> h.Node:
    """What wants to be looked at, of what there is any; each leads to its rows."""
    failures = build_url(TURNS_PATH, {"period": "24h", "ending": ANY_FAILURE})
    oldest = min((lane.since for lane in work.waiting), default=request.now)
    expires_at = min((approval.expires_at for approval in work.approvals), default=request.now)
    waiting = [seat.since for seat in seats if seat.is_waiting and seat.since is not None]
    longest = request.now - min(waiting, default=request.now)
    faults = (
        ("Calls waiting for a seat", len(waiting), f"the longest {format_duration(longest)}", "#seats"),
        (
            "Messages waiting",
            work.waiting_items,
            f"the oldest {format_duration(request.now - oldest)}",
            "#waiting",
        ),
        (
            "Turns waiting for a person",
            work.parked,
            f"a question expires in {format_duration(expires_at - request.now)}" if work.approvals else None,
            "#approvals",
        ),
        ("Deliveries unknown", len(work.unknown), "of the last seven days", "#unknown"),
        (f"Failed turns {FAULT_MARK}", work.failed, "in 24 hours", failures),
    )
    errands = (
        ("People asking for access", work.strangers, None, f"{PEOPLE_PATH}#waiting"),
        ("Groups asking for access", work.groups, None, f"{PEOPLE_PATH}#groups"),
        ("Tools to accept", work.tools, None, TOOLS_PATH),
    )
    return [_show_counts(faults, ".figures.urgent"), _show_counts(errands, ".figures")]


def _show_counts(figures: Sequence[tuple[str, int, str | None, str]], style: str) -> h.Node:
    """The figures of which there is any: what it is, how many, a note, and where it leads."""
    shown = [
        show_figure(label, f"{count:,}", note=note, href=href)
        for label, count, note, href in figures
        if count
    ]
    return bool(shown) and h.dl(style)[shown]


def _describe_endpoint(watch: EndpointWatch, now: float) -> str:
    endpoint = cut(watch.server or watch.url)
    if watch.since is None:
        return f"{endpoint} is being asked whether it answers"
    state = "answers" if watch.is_up else "does not answer"
    return f"{endpoint} {state}, for {format_duration(now - watch.since)}"


def _is_running(work: CurrentWork, now: float) -> bool:
    return work.running_at is not None and now - work.running_at <= SIGN_OF_LIFE_SECONDS


def _describe_gateway(work: CurrentWork, now: float) -> str:
    if work.seen_at is None:
        return "has never run"
    if _is_running(work, now):
        return "runs"
    return f"stopped {format_duration(now - work.seen_at)} ago"


def _build_seats(request: PageRequest, seats: Sequence[SeatRow], names: Mapping[int, str]) -> DataTable:
    columns = (
        TableColumn("endpoint", "Endpoint"),
        TableColumn("place", "Place"),
        TableColumn("who", "Who"),
        TableColumn("purpose", "For"),
        NumberColumn("seconds", "Since"),
    )
    rows = tuple(
        (
            Cell(seat.endpoint),
            Cell(seat.place),
            _lane_cell(seat.lane, names),
            Cell(seat.purpose),
            _duration_cell(seat.since, request.now),
        )
        for seat in seats
    )
    return DataTable("seats", "Seats", columns, rows)


def _build_running(request: PageRequest, work: CurrentWork, names: Mapping[int, str]) -> DataTable:
    columns = (
        TableColumn("who", "Who"),
        TableColumn("where", "Where"),
        TableColumn("kind", "What"),
        NumberColumn("seconds", "For"),
    )
    rows = tuple(
        (
            _person_cell(item.sender, names),
            _lane_cell(item.lane, names),
            Cell("system job" if item.kind == "system" else item.kind),
            _duration_cell(item.since, request.now),
        )
        for item in work.running
    )
    return DataTable("running", "At work", columns, rows, "nothing is being done")


def _build_waiting(request: PageRequest, work: CurrentWork, names: Mapping[int, str]) -> DataTable:
    columns = (
        TableColumn("where", "Where"),
        NumberColumn("items", "Messages"),
        NumberColumn("seconds", "Oldest"),
    )
    rows = tuple(
        (_lane_cell(lane.lane, names), Cell(lane.items), _duration_cell(lane.since, request.now))
        for lane in work.waiting
    )
    return DataTable("waiting", "Waiting", columns, rows, "no message waits")


def _build_unknown(request: PageRequest, work: CurrentWork, names: Mapping[int, str]) -> DataTable:
    columns = (
        TableColumn("where", "Where"),
        TableColumn("reason", "Why"),
        NumberColumn("seconds", "Ago"),
    )
    rows = tuple(
        (
            _lane_cell(delivery.lane, names),
            Cell(cut(delivery.reason or "")),
            _duration_cell(delivery.made_at, request.now),
        )
        for delivery in work.unknown
    )
    return DataTable(
        "unknown", "Nobody knows whether these arrived", columns, rows, "every message is accounted for"
    )


def _build_approvals(request: PageRequest, work: CurrentWork, names: Mapping[int, str]) -> DataTable:
    columns = (
        TableColumn("tool", "Tool"),
        TableColumn("asker", "For"),
        TableColumn("who", "Answers"),
        NumberColumn("seconds", "Asked"),
        NumberColumn("left", "Expires in"),
    )
    rows = tuple(
        (
            Cell(cut(approval.tool), href=build_tool_path(approval.tool)),
            _person_cell(approval.asker, names),
            Cell("an admin" if approval.who == "admins" else "they do"),
            _duration_cell(approval.asked_at, request.now),
            _duration_cell(request.now, approval.expires_at),
        )
        for approval in work.approvals
    )
    return DataTable("approvals", "Approvals that wait", columns, rows, "no question is open")


def _build_jobs(request: PageRequest, work: CurrentWork) -> DataTable:
    columns = (
        TableColumn("kind", "Job"),
        TableColumn("whose", "Whose"),
        NumberColumn("left", "Due in"),
    )
    rows = tuple(
        (
            Cell(job.name if job.kind == "system" else job.kind),
            Cell("the gateway's" if job.kind == "system" else cut(job.person_name or "somebody")),
            _duration_cell(request.now, job.due_at),
        )
        for job in work.next_jobs
    )
    return DataTable("jobs", "Due next", columns, rows, "no job is due")


def _show_notices(work: CurrentWork, zone: ZoneInfo) -> h.Node:
    items = (
        h.li[show_time(notice.told_at, zone), " ", cut(notice.text, MAX_NOTICE_CHARACTERS)]
        for notice in work.notices
    )
    return bool(work.notices) and show_section("Last notices to admins", h.ul(".notices")[items])


def _person_cell(person: int | None, names: Mapping[int, str]) -> Cell:
    """A person, who leads to their turns."""
    href = None if person is None else build_url(TURNS_PATH, {"user": person})
    return Cell(name_person(person, names), href=href)


def _lane_cell(key: str | None, names: Mapping[int, str]) -> Cell:
    """A lane, which leads to its turns; one of the gateway itself has none."""
    is_chat = key is not None and _LANE.fullmatch(key)
    return Cell(name_lane(key, names), href=build_url(TURNS_PATH, {"chat": key}) if is_chat else None)


def _duration_cell(begin: float | None, end: float) -> Cell:
    if begin is None:
        return Cell("", "")
    return build_seconds_cell(max(0.0, end - begin))


SCREEN = Screen("now", "Now", 1, {"": show_now, "/live": show_live})
