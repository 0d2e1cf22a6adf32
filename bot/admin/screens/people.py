"""People and chats: who is in, what they and their groups take, their limits, and links for others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    UNKNOWN,
    act_form,
    build_url,
    cut,
    show_figure,
    show_figures,
    show_section,
)
from bot.admin.data_table import Cell, DataTable, TableColumn, export_table, show_table, sort_table
from bot.admin.filter_form import show_periods
from bot.admin.filters import parse_period
from bot.admin.names import name_person
from bot.admin.page_request import Content, PageRequest, Screen, ScreenPage
from bot.admin.people_acts import PEOPLE_ACTS
from bot.db.people import groups, limits, people
from bot.db.people.admin_changes import LINK_HOURS
from bot.db.people.groups import Group
from bot.db.people.limits import EVERYBODY, QuotaRule, UsedCanvases
from bot.db.people.people import Stranger
from bot.db.people.roster import ReviewedPerson, list_reviewed_people
from bot.db.usage import report_sums
from bot.db.usage.usage_sums import CallSums, Scope
from bot.usage.report import format_local

DEFAULT_PERIOD = "30d"

_PERSON_COLUMNS = (
    TableColumn("person", "Person", can_sort=True),
    TableColumn("number", "Number"),
    TableColumn("role", "Role", can_sort=True),
    TableColumn("last_asked", "Last asked", can_sort=True),
    TableColumn("let_in_by", "Let in by"),
    TableColumn("turns", "Turns", is_number=True, can_sort=True),
    TableColumn("canvases", "Canvases", is_number=True, can_sort=True),
    TableColumn("unknown_calls", "Calls unknown", is_number=True, can_sort=True),
    TableColumn("limit", "Limit a day", is_number=True),
)
_GROUP_COLUMNS = (
    TableColumn("group", "Group"),
    TableColumn("number", "Number"),
    TableColumn("state", "State"),
    TableColumn("let_in_by", "Let in by"),
    TableColumn("speakers", "May ask"),
    TableColumn("sees", "The bot sees"),
    TableColumn("canvases", "Canvases", is_number=True),
    TableColumn("unknown_calls", "Calls unknown", is_number=True),
    TableColumn("limit", "Limit a day", is_number=True),
)
_STRANGER_COLUMNS = (
    TableColumn("person", "Person"),
    TableColumn("number", "Number"),
    TableColumn("asked", "Asked"),
)
_STATES = {"asked": "waits to be let in", "in": "in", "left": "left"}
_SIGHTS = {True: "every message", False: "commands and replies", None: UNKNOWN}
_IN_THE_CHAT = (
    "Canvases are estimated; those of a group are what its limit counts. To let in, remove or block "
    "somebody, write /people to the bot, and /groups for groups."
)


@dataclass(frozen=True, slots=True)
class Roster:
    """All that the screen shows. `turns` and `calls` are sums of the period by person."""

    people: Sequence[ReviewedPerson]
    strangers: Sequence[Stranger]
    groups: Sequence[Group]
    rules: Mapping[int, QuotaRule]
    turns: Mapping[int, int]
    calls: Mapping[int, CallSums]
    used_by_group: Mapping[int, UsedCanvases]
    names: Mapping[int, str]


async def show_people(request: PageRequest) -> Content:
    """Everybody, and every group."""
    if not request.query.keys() & {"period", "from", "to"}:
        request = replace(request, query={**request.query, "period": DEFAULT_PERIOD})
    period = parse_period(request.query, zone=request.zone, now=request.now)
    roster = await _load_roster(request, Scope(period.since, period.until))
    tables = (
        _build_people(request, roster),
        _build_groups(request, roster),
        _build_strangers(request, roster),
    )
    if request.export:
        table = next((table for table in tables if table.name == request.query.get("table")), tables[0])
        return export_table(table, request.export)
    body = [
        show_periods(request, period.name),
        show_figures(
            show_figure("People", str(sum(person.role != "blocked" for person in roster.people))),
            show_figure("Groups", str(sum(group.state == "in" for group in roster.groups))),
            show_figure("Wait to be let in", str(len(roster.strangers))),
        ),
        (show_table(table, request) for table in tables),
        h.p(".hint")[_IN_THE_CHAT],
        _show_limit_form(request, roster),
        _show_invite_form(request),
    ]
    return ScreenPage("People", body)


async def _load_roster(request: PageRequest, scope: Scope) -> Roster:
    async with request.read() as tx:
        stored = await list_reviewed_people(tx)
        present = [group for group in await groups.list_groups(tx) if group.state != "left"]
        turns = await report_sums.count_turns(tx, scope, "user", with_settled=False)
        calls = await report_sums.sum_calls(tx, scope, "user", tokens_only=True)
        since = scope.since or 0.0
        return Roster(
            [*_list_configured(request, stored), *stored],
            await people.list_strangers(tx),
            present,
            {rule.person: rule for rule in await limits.list_rules(tx)},
            {sums.key: sums.turns for sums in turns if isinstance(sums.key, int)},
            {sums.key: sums for sums in calls if isinstance(sums.key, int)},
            {group.chat: await limits.count_used_canvases(tx, group.chat, since) for group in present},
            await people.list_names(tx),
        )


def _list_configured(request: PageRequest, stored: Sequence[ReviewedPerson]) -> list[ReviewedPerson]:
    """Admins by the settings who have never written."""
    missing = sorted(set(request.dependencies.settings.admin_ids) - {person.id for person in stored})
    return [ReviewedPerson(number, f"Person {number}", "admin", None, True, None) for number in missing]


def _build_people(request: PageRequest, roster: Roster) -> DataTable:
    rows = tuple(_build_person(request, person, roster) for person in roster.people)
    table = DataTable("people", "People", _PERSON_COLUMNS, rows, "Nobody has been let in.")
    return sort_table(table, request.query.get("sort"))


def _build_person(request: PageRequest, person: ReviewedPerson, roster: Roster) -> tuple[Cell, ...]:
    calls = roster.calls.get(person.id)
    href = _build_turns_url(request, "user", person.id)
    return (
        Cell(cut(person.name), href=href),
        Cell(person.id, str(person.id)),
        Cell(_describe_role(request, person)),
        _show_moment(request, person.last_turn_at),
        Cell(_name_inviter(person.let_in_by, roster.names)),
        Cell(roster.turns.get(person.id, 0), href=href),
        _show_canvases(calls, href),
        Cell(0 if calls is None else calls.costing - calls.canvases_known, href=href),
        _show_limit(request, person, roster.rules),
    )


def _describe_role(request: PageRequest, person: ReviewedPerson) -> str:
    role = person.role
    if person.id in request.dependencies.settings.admin_ids:
        role = "admin (ADMIN_IDS)"
    elif person.is_guest:
        role = "guest"
    return role if person.reachable else f"{role}, has blocked the bot"


def _show_moment(request: PageRequest, moment: float | None) -> Cell:
    if moment is None:
        return Cell("", "–")
    return Cell(format_local(moment, str(request.zone)))


def _name_inviter(person: int | None, names: Mapping[int, str]) -> str:
    if person == people.COMMAND_LINE_INVITER:
        return "a link of the machine"
    return name_person(person, names)


def _show_canvases(calls: CallSums | None, href: str) -> Cell:
    """What calls took, as the report says it: unknown where no call of them was counted."""
    if calls is None:
        return Cell(0)
    if calls.costing and not calls.canvases_known:
        return Cell(None, href=href)
    return Cell(calls.canvases, href=href)


def _show_limit(request: PageRequest, person: ReviewedPerson, rules: Mapping[int, QuotaRule]) -> Cell:
    """The limit that holds for a person."""
    own = rules.get(person.id)
    if own is not None:
        return _format_limit(own.canvases)
    is_admin = person.role == "admin" or person.id in request.dependencies.settings.admin_ids
    if is_admin:
        return _format_limit(None)
    everybody = rules.get(EVERYBODY)
    if everybody is not None:
        return _format_limit(everybody.canvases)
    return _format_limit(request.dependencies.settings.canvases_a_day)


def _format_limit(canvases: int | None) -> Cell:
    return Cell("none" if canvases is None else canvases)


def _build_groups(request: PageRequest, roster: Roster) -> DataTable:
    rows = tuple(_build_group(request, group, roster) for group in roster.groups)
    return DataTable("groups", "Groups", _GROUP_COLUMNS, rows, "The bot is in no group.")


def _build_group(request: PageRequest, group: Group, roster: Roster) -> tuple[Cell, ...]:
    used = roster.used_by_group[group.chat]
    href = _build_turns_url(request, "chat", group.chat)
    rule = roster.rules.get(group.chat)
    return (
        Cell(cut(group.title), href=href),
        Cell(group.chat, str(group.chat)),
        Cell(_STATES[group.state] if group.can_send else f"{_STATES[group.state]}, muted"),
        Cell(_name_inviter(group.let_in_by, roster.names)),
        Cell("everybody there" if group.speakers == "everyone" else "people who are in"),
        Cell(_SIGHTS[group.hears_all]),
        Cell(used.canvases, href=href),
        Cell(used.unknown_calls, href=href),
        _format_limit(None if rule is None else rule.canvases),
    )


def _build_strangers(request: PageRequest, roster: Roster) -> DataTable:
    rows = tuple(
        (
            Cell(cut(stranger.name)),
            Cell(stranger.id, str(stranger.id)),
            _show_moment(request, stranger.asked_at),
        )
        for stranger in roster.strangers
    )
    return DataTable("waiting", "Wait to be let in", _STRANGER_COLUMNS, rows, "Nobody waits.")


def _build_turns_url(request: PageRequest, name: str, number: int) -> str:
    """The turns of the period that a person or a chat has."""
    kept = {field: request.query[field] for field in ("period", "from", "to") if request.query.get(field)}
    return build_url(TURNS_PATH, {name: number, **kept})


def _show_limit_form(request: PageRequest, roster: Roster) -> h.Element:
    holders = [(EVERYBODY, "Every member")]
    holders += [(person.id, f"{cut(person.name, 40)} · {person.id}") for person in roster.people]
    holders += [(group.chat, f"{cut(group.title, 40)} · {group.chat}") for group in roster.groups]
    options = (h.option(value=str(number))[text] for number, text in holders)
    form = act_form(
        request,
        f"{request.path}/limit",
        "Set",
        h.label["Limit of", h.select(name="holder")[options]],
        h.label["Canvases a day", h.input(name="value", required=True, size="10", placeholder="200")],
    )
    hint = "A number, none (no limit), or default: what holds for every member."
    return show_section("Set a limit", h.div(".acts")[form], h.p(".hint")[hint])


def _show_invite_form(request: PageRequest) -> h.Element:
    roles = h.select(name="role")[h.option(value="member")["a member"], h.option(value="admin")["an admin"]]
    form = act_form(request, f"{request.path}/invite", "Make a link", h.label["For", roles])
    hint = f"It lets one person in, once, within {LINK_HOURS} hours."
    return show_section("Invite", h.div(".acts")[form], h.p(".hint")[hint])


SCREEN = Screen("people", "People", 7, {"": show_people}, PEOPLE_ACTS)
