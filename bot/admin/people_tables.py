"""The tables of people, groups and strangers, with what can be done about each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.admin.access_acts import (
    GROUPS_PATH,
    PEOPLE_PATH,
    build_act_cell,
    list_group_acts,
    list_person_acts,
)
from bot.admin.components import TURNS_PATH, cut, keep_period
from bot.admin.data_table import Cell, DataTable, NumberColumn, TableColumn
from bot.admin.names import name_person
from bot.admin.page_request import PageRequest
from bot.admin.record_tables import format_size
from bot.admin.table_view import build_moment_cell
from bot.db.people import people
from bot.db.people.groups import Group
from bot.db.people.limits import EVERYBODY, QuotaRule, UsedCanvases
from bot.db.people.people import Invite, Stranger
from bot.db.people.roster import ReviewedPerson
from bot.db.usage.usage_sums import CallSums
from bot.usage.figures import EMPTY_CELL, UNKNOWN, get_known

_ACTS_COLUMN = TableColumn("acts", "Change", can_sort=False, is_exported=False)
_PERSON_COLUMNS = (
    TableColumn("person", "Person"),
    NumberColumn("turns", "Turns"),
    NumberColumn("canvases", "Canvases"),
    NumberColumn("unknown_calls", "Uncounted calls"),
    NumberColumn("limit", "Limit a day", can_sort=False),
    NumberColumn("kept_files", "Kept files"),
    TableColumn("last_asked", "Last asked", style="moment"),
    TableColumn("role", "Role"),
    TableColumn("let_in_by", "Let in by", can_sort=False),
    TableColumn("number", "Number", can_sort=False),
    _ACTS_COLUMN,
)
_GROUP_COLUMNS = (
    TableColumn("group", "Group"),
    TableColumn("state", "State"),
    _ACTS_COLUMN,  # in view on a phone, as some wait to be let in
    TableColumn("number", "Number"),
    TableColumn("let_in_by", "Let in by"),
    TableColumn("speakers", "May ask"),
    TableColumn("sees", "The bot sees"),
    NumberColumn("canvases", "Canvases"),
    NumberColumn("unknown_calls", "Uncounted calls"),
    NumberColumn("limit", "Limit a day"),
)
_STRANGER_COLUMNS = (
    TableColumn("person", "Person"),
    _ACTS_COLUMN,  # in view on a phone: it is what the table is for
    TableColumn("code", "Code"),
    TableColumn("asked", "Asked"),
    TableColumn("number", "Number"),
)
_STATES = {"asked": "waits to be let in", "in": "in", "left": "left"}
_SIGHTS = {True: "every message", False: "commands and replies", None: UNKNOWN}


@dataclass(frozen=True, slots=True)
class Roster:
    """All that the screen shows. `turns`, `calls` are sums of the period by person, `kept_bytes` of files."""

    people: Sequence[ReviewedPerson]
    strangers: Sequence[Stranger]
    groups: Sequence[Group]
    rules: Mapping[int, QuotaRule]
    turns: Mapping[int, int]
    calls: Mapping[int, CallSums]
    used_by_group: Mapping[int, UsedCanvases]
    names: Mapping[int, str]
    invites: Sequence[Invite]
    kept_bytes: Mapping[int, int]


def build_people_table(request: PageRequest, roster: Roster) -> DataTable:
    search = request.query.get("search", "").casefold()
    rows = tuple(
        _build_person(request, person, roster)
        for person in roster.people
        if search in f"{person.name} {person.id}".casefold()
    )
    nothing = "Nobody is called so." if search else "Nobody has been let in."
    return DataTable(
        "people", "People", _name_columns(request, _PERSON_COLUMNS), rows, nothing, can_sort=True
    )


def _build_person(request: PageRequest, person: ReviewedPerson, roster: Roster) -> tuple[Cell, ...]:
    calls = roster.calls.get(person.id)
    href = keep_period(request, TURNS_PATH, user=person.id)
    kept_bytes = roster.kept_bytes.get(person.id, 0)
    return (
        Cell(cut(person.name), href=href),
        Cell(roster.turns.get(person.id, 0), href=href),
        _show_used(request, calls, href),
        Cell(0 if calls is None else calls.calls - calls.output_known, href=href),
        _show_limit(request, person, roster.rules),
        Cell(kept_bytes, format_size(kept_bytes) if kept_bytes else EMPTY_CELL),
        _show_moment(request, person.last_turn_at),
        Cell(_describe_role(request, person)),
        Cell(name_inviter(person.let_in_by, roster.names)),
        Cell(person.id, str(person.id)),
        _show_person_acts(request, person),
    )


def _show_person_acts(request: PageRequest, person: ReviewedPerson) -> Cell:
    """What can be done about a person: nothing about oneself and admins of the settings."""
    acts = list_person_acts(person.role)
    if person.id == request.viewer.person or person.id in request.dependencies.settings.admin_ids:
        acts = ()
    return build_act_cell(request, PEOPLE_PATH, person.id, person.name, acts)


def _describe_role(request: PageRequest, person: ReviewedPerson) -> str:
    role = person.role
    if person.id in request.dependencies.settings.admin_ids:
        role = "admin (ADMIN_IDS)"
    elif person.is_guest:
        role = "guest"
    return role if person.reachable else f"{role}, has blocked the bot"


def _show_moment(request: PageRequest, moment: float | None) -> Cell:
    if moment is None:
        return Cell("", EMPTY_CELL)
    return build_moment_cell(moment, request)


def name_inviter(person: int | None, names: Mapping[int, str]) -> str:
    """Who let somebody in, or made a link for that."""
    if person == people.COMMAND_LINE_INVITER:
        return "the owner of the machine"
    return name_person(person, names)


def _name_columns(request: PageRequest, columns: Sequence[TableColumn]) -> tuple[TableColumn, ...]:
    """The columns, in the unit that is shown."""
    title = request.output_unit.name.capitalize()
    return tuple(replace(column, title=title) if column.key == "canvases" else column for column in columns)


def _show_used(request: PageRequest, calls: CallSums | None, href: str) -> Cell:
    """What calls took, as the report says it: unknown where no call of them was counted."""
    if calls is None:
        return Cell(0)
    canvases = request.output_unit.convert(calls.canvases)
    return Cell(get_known(canvases, calls.canvases_known, calls.costing), href=href)


def _show_limit(request: PageRequest, person: ReviewedPerson, rules: Mapping[int, QuotaRule]) -> Cell:
    """The limit that holds for a person."""
    own = rules.get(person.id)
    if own is not None:
        return _format_limit(request, own.canvases)
    is_admin = person.role == "admin" or person.id in request.dependencies.settings.admin_ids
    if is_admin:
        return _format_limit(request, None)
    everybody = rules.get(EVERYBODY)
    if everybody is not None:
        return _format_limit(request, everybody.canvases)
    return _format_limit(request, request.dependencies.settings.canvases_a_day)


def _format_limit(request: PageRequest, canvases: int | None) -> Cell:
    return Cell("none" if canvases is None else request.output_unit.convert(canvases))


def build_groups_table(request: PageRequest, roster: Roster) -> DataTable:
    rows = tuple(_build_group(request, group, roster) for group in roster.groups)
    return DataTable(
        "groups", "Groups", _name_columns(request, _GROUP_COLUMNS), rows, "The bot is in no group."
    )


def _build_group(request: PageRequest, group: Group, roster: Roster) -> tuple[Cell, ...]:
    used = roster.used_by_group[group.chat]
    href = keep_period(request, TURNS_PATH, chat=group.chat)
    rule = roster.rules.get(group.chat)
    return (
        Cell(cut(group.title), href=href),
        Cell(_STATES[group.state] if group.can_send else f"{_STATES[group.state]}, muted"),
        build_act_cell(request, GROUPS_PATH, group.chat, group.title, list_group_acts(group.state)),
        Cell(group.number, str(group.number)),
        Cell(name_inviter(group.let_in_by, roster.names)),
        Cell("everybody there" if group.speakers == "everyone" else "people who are in"),
        Cell(_SIGHTS[group.hears_all]),
        Cell(request.output_unit.convert(used.canvases), href=href),
        Cell(used.unknown_calls, href=href),
        _format_limit(request, None if rule is None else rule.canvases),
    )


def build_strangers_table(request: PageRequest, roster: Roster) -> DataTable:
    acts = list_person_acts(None, is_waiting=True)
    rows = tuple(
        (
            Cell(cut(stranger.name)),
            build_act_cell(request, PEOPLE_PATH, stranger.id, stranger.name, acts),
            Cell(stranger.code if stranger.expires_at > request.now else "expired"),
            _show_moment(request, stranger.asked_at),
            Cell(stranger.id, str(stranger.id)),
        )
        for stranger in roster.strangers
    )
    return DataTable("waiting", "Wait to be let in", _STRANGER_COLUMNS, rows, "Nobody waits.")
