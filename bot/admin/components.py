"""Parts of pages: figures, links, times and buttons. Pure: values in, elements out.

Whatever is passed as a child or an attribute is escaped by htpy.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import htpy as h

from bot.admin.page_request import PageRequest
from bot.admin.svg_chart import FAULT_MARK
from bot.db.people.page_sessions import ADMIN_PATH
from bot.db.usage.ledger_columns import ANSWERED_ENDINGS, UNANSWERED_ENDINGS

MAX_CHARACTERS = 80
TURNS_PATH = f"{ADMIN_PATH}/turns"
PERIOD_NAMES = ("period", "from", "to")
MAX_LARGE_CHARACTERS = 12  # of a figure in large type; a longer one would be broken among its digits
LIVE_TIMEOUT_MS = 10_000  # longer than a read of the page may take with its wait


def cut(text: str, limit: int = MAX_CHARACTERS) -> str:
    """One line of a text of others, of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    if len(line) <= limit:
        return line
    return line[: limit - 1] + "…"


def change_query(request: PageRequest, **changes: str | None) -> str:
    """The address of this page with some of its query changed; None leaves a name out."""
    query = {**request.query, **changes}
    kept = {name: value for name, value in query.items() if value is not None}
    return build_url(request.path, kept)


def build_url(path: str, query: Mapping[str, object]) -> str:
    """An address of the page with a query."""
    return f"{path}?{urlencode(query)}" if query else path


def keep_period(request: PageRequest, path: str, **query: object) -> str:
    """An address of the page with a query, over the same period as this one."""
    kept = {name: request.query[name] for name in PERIOD_NAMES if request.query.get(name)}
    return build_url(path, {**kept, **query})


def show_time(moment: float, zone: ZoneInfo) -> h.Element:
    """A time as the admin's clock shows it; the page says once which zone that is."""
    local = datetime.fromtimestamp(moment, zone)
    return h.time(datetime=local.isoformat(timespec="seconds"))[local.strftime("%Y-%m-%d %H:%M:%S")]


def format_duration(seconds: float) -> str:
    """Seconds in the largest unit that leaves a figure: `850 ms`, `3.2 s`, `4 min 5 s`, `2 h 10 min`."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days"


def mark_ending(ending: str | None) -> tuple[str, str]:
    """The mark of how a turn or a call ended (None: it has not), which needs no colour, and its class."""
    if ending in {"answered", "ok"}:
        return "✓", "good"
    if is_fault(ending):
        return FAULT_MARK, "bad"
    return "○", "plain"


def is_fault(ending: str | None) -> bool:
    """Whether this ending of a turn or a call is one that nobody wants."""
    return ending not in {None, "ok", "cancelled", *ANSWERED_ENDINGS, *UNANSWERED_ENDINGS}


def show_figures(*figures: h.Node) -> h.Element:
    """A row of figures."""
    return h.dl(".figures")[figures]


def show_figure(label: str, text: str, *, note: h.Node = None, href: str | None = None) -> h.Element:
    """One figure with its label; `note` says how it changed, `href` leads to its rows."""
    value: h.Node = text if href is None else h.a(href=href)[text]
    classes = {"long": len(text) > MAX_LARGE_CHARACTERS}
    return h.div(class_=classes)[h.dt[label], h.dd[value, note is not None and h.small[note]]]


def show_choice(label: str, choices: Iterable[tuple[str, str, bool]]) -> h.Element:
    """Links (text, address, whether it is chosen); the chosen one is no stop of the Tab key."""
    items = (
        h.li[
            h.a(
                href=href,
                aria_current="true" if is_chosen else None,
                tabindex="-1" if is_chosen else None,
            )[text]
        ]
        for text, href, is_chosen in choices
    )
    return h.nav(".periods", aria_label=label)[h.ul[items]]


def show_section(title: str, *children: h.Node) -> h.Element:
    """A section with a heading."""
    return h.section[h.h2[title], children]


def show_nothing(text: str) -> h.Element:
    """What stands in the place of rows that are not there."""
    return h.p(".nothing")[text]


def act_form(request: PageRequest, path: str, label: str, *fields: h.Node, question: str = "") -> h.Element:
    """A button that does an act by POST to `path`, with its fields; `question` is asked first."""
    token = h.input(type="hidden", name="csrf", value=request.viewer.csrf_token)
    return h.form(".act", method="post", action=path, data_question=question or None)[
        token, fields, h.button[label]
    ]


def hidden_field(name: str, value: object) -> h.VoidElement:
    """A field that an act gets and the admin does not see."""
    return h.input(type="hidden", name=name, value=str(value))


def hide_query(request: PageRequest, names: Iterable[str]) -> list[h.VoidElement]:
    """Hidden fields with which a form keeps these parts of the page's query."""
    return [hidden_field(name, request.query[name]) for name in names if request.query.get(name)]


def live_part(path: str, body: h.Node) -> h.Element:
    """A part that asks `path` for its fragment every two seconds while the tab is seen."""
    return h.div(
        ".live",
        hx_get=path,
        hx_trigger="every 2s, seen",
        hx_swap="innerHTML",
        hx_request=json.dumps({"timeout": LIVE_TIMEOUT_MS}),
    )[body]
