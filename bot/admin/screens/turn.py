"""One turn: where its seconds went, and what happened when; its texts only for a reason that is recorded."""

from collections.abc import Mapping
from datetime import datetime

import htpy as h

from bot.admin.components import (
    TURNS_PATH,
    act_form,
    build_url,
    cut,
    mark_ending,
    show_figure,
    show_figures,
    show_nothing,
    show_section,
    show_time,
)
from bot.admin.names import name_lane, name_person
from bot.admin.page_request import PageRequest, Screen, ScreenPage
from bot.admin.screens.turns import ENDINGS
from bot.admin.table_view import show_tables
from bot.admin.turn_step_tables import build_tables
from bot.admin.turn_timeline import describe_longest, show_intervals, show_timeline
from bot.db.people import people
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.tools import audit
from bot.db.usage.turn_steps import TurnSteps, load_steps
from bot.errors import NothingFound, QuestionRefused
from bot.usage.figures import UNKNOWN, format_seconds
from bot.usage.query_args import parse_turn_id
from bot.usage.turn_report import describe_takeover

MAX_TEXT_CHARACTERS = 4_000
MAX_REASON_CHARACTERS = 200
MIN_REASON_CHARACTERS = 3
_MAX_ID = 2**63 - 1  # the largest that the database has


async def show_turn(request: PageRequest) -> ScreenPage:
    """The turn without its texts."""
    turn, names = await _load(request, with_texts=False)
    return _build_page(request, turn, names, _ask_for_reason(request, turn))


async def show_texts(request: PageRequest, form: Mapping[str, str]) -> ScreenPage:
    """The turn with its texts, once the audit log says who reads them, and why."""
    reason = " ".join(form.get("reason", "").split())
    if not MIN_REASON_CHARACTERS <= len(reason) <= MAX_REASON_CHARACTERS:
        raise QuestionRefused(f"Say in some words, at most {MAX_REASON_CHARACTERS} characters, why.")
    turn, _ = await _load(request, with_texts=False)
    async with request.write() as tx:
        await audit.record_texts_read(tx, request.actor, turn.id, reason=reason, now=request.now)
    turn, names = await _load(request, with_texts=True)
    return _build_page(request, turn, names, _show_texts(turn))


async def _load(request: PageRequest, *, with_texts: bool) -> tuple[TurnSteps, Mapping[int, str]]:
    """The turn that the path names; raises QuestionRefused for no number and NothingFound for none."""
    number = parse_turn_id(request.parts["turn"])
    async with request.read() as tx:
        turn = await load_steps(tx, min(number, _MAX_ID), with_texts=with_texts)
        names = await people.list_names(tx)
    if turn is None:
        raise NothingFound(f"There is no turn {number}.")
    return turn, names


def _build_page(request: PageRequest, turn: TurnSteps, names: Mapping[int, str], texts: h.Node) -> ScreenPage:
    intervals, *others = build_tables(turn, names)
    tables = (*others, intervals)
    body = (
        _show_head(request, turn, names),
        show_section("Where the seconds went", show_intervals(turn)),
        show_section("What happened when", show_timeline(turn, request.now)),
        show_tables(request, tables),
        show_section("Texts", texts),
    )
    return ScreenPage(f"Turn {turn.id}", body, tables)


def _show_head(request: PageRequest, turn: TurnSteps, names: Mapping[int, str]) -> h.Node:
    since = {"period": "90d"}
    whole = turn.account.get("whole")
    waited = None if whole is None else turn.account["lane_wait"] + turn.account["seat_wait"]
    endpoint = "first" if turn.endpoint == "main" else "second"
    mark, _ = mark_ending(turn.ending)
    ending = turn.ending or turn.state
    figures = [
        show_figure("Ending", f"{mark} {cut(ENDINGS.get(ending, ending))}"),
        show_figure(
            "Who", name_person(turn.user, names), href=build_url(TURNS_PATH, {**since, "user": turn.user})
        ),
        show_figure(
            "Thinking", "on" if turn.thinking else "off", note=f"why: {cut(turn.thinking_why) or UNKNOWN}"
        ),
        show_figure(
            "Endpoint", endpoint, note=f"why: {cut(turn.endpoint_why)}" if turn.endpoint_why else None
        ),
        show_figure("Waited for its chat and for seats", _format_optional(waited)),
        show_figure("Steps", str(max((call.step for call in turn.calls), default=0))),
    ]
    if turn.chat != str(turn.user):
        href = build_url(TURNS_PATH, {**since, "chat": turn.chat})
        figures.insert(2, show_figure("Where", name_lane(turn.chat, names), href=href))
    moment = datetime.fromtimestamp(turn.received_at, request.zone).isoformat(timespec="seconds")
    seats = h.a(href=build_url(f"{ADMIN_PATH}/seats", {"at": moment}))["Who had the seats then?"]
    line = h.p[
        "Received ",
        show_time(turn.received_at, request.zone),
        ". Times below are seconds since then. ",
        seats,
    ]
    takeovers = [
        h.p[f"{format_seconds(takeover.taken_at - turn.received_at)} s: {describe_takeover(takeover)}."]
        for takeover in turn.takeovers
    ]
    longest = describe_longest(turn)
    return longest and h.p(".longest")[longest], line, show_figures(*figures), takeovers


def _format_optional(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{format_seconds(seconds)} s"


def _ask_for_reason(request: PageRequest, turn: TurnSteps) -> h.Node:
    if turn.state == "forgotten":
        return show_nothing("They were deleted by /forget, or for their age.")
    if request.dependencies.gateway is None:
        command = h.code[f"canvasgram turn {turn.id} --texts"]
        return h.p["This page only shows. ", command, " prints them, and that is recorded."]
    field = h.label[
        "Why do you read them?",
        h.input(
            name="reason",
            required=True,
            minlength=str(MIN_REASON_CHARACTERS),
            maxlength=str(MAX_REASON_CHARACTERS),
            size="40",
        ),
    ]
    return (
        h.p["What people, the model and tools wrote is hidden. Reading it is recorded, with your reason."],
        act_form(request, f"{ADMIN_PATH}/turn/{turn.id}/texts", "Show texts", field),
    )


def _show_texts(turn: TurnSteps) -> h.Node:
    pieces = [(message.role, message.text) for message in turn.said]
    for tool in turn.tools:
        pieces += [
            (f"{tool.name}, arguments", tool.arguments or ""),
            (f"{tool.name}, result", tool.result or ""),
        ]
    shown = ((h.dt[cut(label)], h.dd[h.pre[_cut_text(text)]]) for label, text in pieces if text)
    return h.p["That they were read is recorded, with your reason."], h.dl(".texts")[shown]


def _cut_text(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]}\n… and {len(text) - MAX_TEXT_CHARACTERS:,} characters more"


SCREEN = Screen("turn", "", 3, {"/{turn}": show_turn}, {"/{turn}/texts": show_texts})
