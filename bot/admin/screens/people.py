"""People and chats: who is in, what they and their groups take, their limits, and links for others."""

from collections.abc import Sequence
from dataclasses import replace

import htpy as h

from bot.admin.access_acts import ACCESS_ACTS, ACCESS_VIEWS
from bot.admin.components import (
    PERIOD_NAMES,
    act_form,
    cut,
    hidden_field,
    hide_query,
    show_figure,
    show_figures,
    show_nothing,
    show_section,
)
from bot.admin.filter_form import show_periods
from bot.admin.filters import parse_period
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.people_acts import PEOPLE_ACTS
from bot.admin.people_tables import (
    Roster,
    build_groups_table,
    build_people_table,
    build_strangers_table,
    name_inviter,
)
from bot.admin.table_view import show_tables
from bot.db.conversations import kept_files
from bot.db.people import groups, limits, people
from bot.db.people.admin_changes import LINK_HOURS
from bot.db.people.limits import EVERYBODY
from bot.db.people.roster import ReviewedPerson, list_reviewed_people
from bot.db.usage import report_sums
from bot.db.usage.usage_sums import Scope
from bot.usage.local_times import format_local

DEFAULT_PERIOD = "30d"
_INVITED = {"member": "a member", "admin": "an admin"}

_FIGURES_NOTE = (
    "{unit} are estimated; those of a group are what its limit counts. They leave out uncounted calls, of "
    "which the server did not tell how much they wrote."
)
_COMMANDS_NOTE = (
    "This page only shows. To change something, write the command of its row to the bot; /limits sets "
    "limits, and /invite makes a link that lets somebody in."
)


async def show_people(request: PageRequest) -> ScreenPage:
    """Everybody, and every group."""
    if not request.query.keys() & set(PERIOD_NAMES):
        request = replace(request, query={**request.query, "period": DEFAULT_PERIOD})
    period = parse_period(request.query, zone=request.zone, now=request.now)
    roster = await _load_roster(request, Scope(period.since, period.until))
    tables = (
        build_people_table(request, roster),
        build_groups_table(request, roster),
        build_strangers_table(request, roster),
    )
    waiting_rows = "#waiting" if roster.strangers else None
    blocked = sum(person.role == "blocked" for person in roster.people)
    note = f"besides {blocked} blocked" if blocked else None
    body = [
        h.div(".choices")[show_periods(request, period.name), _show_search(request)],
        show_figures(
            show_figure("People", str(len(roster.people) - blocked), note=note),
            show_figure("Groups", str(sum(group.state == "in" for group in roster.groups))),
            show_figure("Wait to be let in", str(len(roster.strangers)), href=waiting_rows),
        ),
        show_tables(request, tables),
        h.p(".hint")[_FIGURES_NOTE.format(unit=request.output_unit.name.capitalize())],
        _show_forms(request, roster),
    ]
    return ScreenPage("People", body, tables)


async def _load_roster(request: PageRequest, scope: Scope) -> Roster:
    async with request.read() as tx:
        stored = await list_reviewed_people(tx)
        present = [group for group in await groups.list_groups(tx) if group.state != "left"]
        turns = await report_sums.count_turns(tx, scope, "user")
        calls = await report_sums.sum_calls(tx, scope, "user")
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
            await people.list_open_invites(tx, now=request.now),
            await kept_files.sum_bytes(tx),
        )


def _show_search(request: PageRequest) -> h.Element:
    """A search among people by a part of the name or the number."""
    text = request.query.get("search", "")
    return h.form(".search", method="get", action=request.path, role="search")[
        hide_query(request, (*PERIOD_NAMES, "sort")),
        h.input(
            type="search",
            name="search",
            value=text,
            placeholder="Name or number",
            aria_label="Name or number",
        ),
        h.button["Search"],
    ]


def _list_configured(request: PageRequest, stored: Sequence[ReviewedPerson]) -> list[ReviewedPerson]:
    """Admins by the settings who have never written."""
    missing = sorted(set(request.dependencies.settings.admin_ids) - {person.id for person in stored})
    return [ReviewedPerson(number, f"Person {number}", "admin", None, True, None) for number in missing]


def _show_forms(request: PageRequest, roster: Roster) -> h.Node:
    """The forms of the screen; where the page only shows, how else things are changed."""
    if request.dependencies.gateway is None:
        return h.p(".hint")[_COMMANDS_NOTE]
    return [_show_limit_form(request, roster), _show_invite_form(request), _show_invites(request, roster)]


def _show_limit_form(request: PageRequest, roster: Roster) -> h.Element:
    holders = [(EVERYBODY, "Every member")]
    holders += [(person.id, f"{cut(person.name, 40)} · {person.id}") for person in roster.people]
    holders += [(group.chat, f"{cut(group.title, 40)} · {group.number}") for group in roster.groups]
    options = (h.option(value=str(number))[text] for number, text in holders)
    example = "200" if request.output_unit.has_canvases else "50000"
    value = h.input(name="value", required=True, size="10", placeholder=example)
    form = act_form(
        request,
        f"{request.path}/limit",
        "Set",
        h.label["Limit of", h.select(name="holder")[options]],
        h.label[f"{request.output_unit.name.capitalize()} a day", value],
    )
    hint = "A number, none (no limit), or default: what holds for every member."
    return show_section("Set a limit", h.div(".acts")[form], h.p(".hint")[hint])


def _show_invite_form(request: PageRequest) -> h.Element:
    roles = h.select(name="role")[h.option(value="member")["a member"], h.option(value="admin")["an admin"]]
    form = act_form(request, f"{request.path}/invite", "Make a link", h.label["For", roles])
    hint = f"It lets one person in, once, within {LINK_HOURS} hours."
    return show_section("Invite", h.div(".acts")[form], h.p(".hint")[hint])


def _show_invites(request: PageRequest, roster: Roster) -> h.Element:
    """The links that nobody has used yet, each with what voids it."""
    lines = (
        h.li[
            f"For {_INVITED[invite.role]}, by {name_inviter(invite.made_by, roster.names)}, until "
            f"{format_local(invite.expires_at, str(request.zone))} ",
            act_form(request, f"{request.path}/revoke", "Revoke", hidden_field("link", invite.code_hash)),
        ]
        for invite in roster.invites
    )
    return show_section("Open links", h.ul[lines] if roster.invites else show_nothing("None is open."))


SCREEN = Screen("people", "People", 7, {"": show_people, **ACCESS_VIEWS}, {**PEOPLE_ACTS, **ACCESS_ACTS})
