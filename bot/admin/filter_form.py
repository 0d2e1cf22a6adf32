"""The form with which a screen is filtered: a link for each period, and a field for each filter. Pure.

It sends the query that `filters` parses, by GET, so that an address can be kept and sent to others.
"""

from collections.abc import Iterable, Mapping
from typing import get_args

import htpy as h

from bot.admin.components import change_query, cut, show_choice
from bot.admin.filters import PERIODS, Filters
from bot.admin.names import name_lane, name_person
from bot.admin.page_request import PageRequest
from bot.db.usage.recent_names import RecentNames
from bot.domain import CallPurpose, EndpointRole

MAX_OPTION_CHARACTERS = 40
_KEPT_NAMES = ("sort", "by")  # what the form sends on without a field
_UNFILTERED_NAMES = (*_KEPT_NAMES, "period", "before", "rows")
_DATE_KINDS = {0: "date", len("2026-11-03"): "date", len("2026-11-03T14:00"): "datetime-local"}


def show_filter_form(
    request: PageRequest, filters: Filters, names: Mapping[int, str], recent: RecentNames, *fields: h.Node
) -> h.Element:
    """The form, filled with the filters of the page.

    `names` are those of people and groups by number, `recent` is suggested; `fields` are those that only
    this screen has.
    """
    hidden = {name: request.query[name] for name in _KEPT_NAMES if request.query.get(name)}
    if filters.period.name:
        hidden["period"] = filters.period.name
    people = [(str(number), name_person(number, names)) for number in names if number > 0]
    chats = [(str(number), name_lane(str(number), names)) for number in names]
    scope = filters.scope
    user = None if scope.user is None else str(scope.user)
    thinking = {True: "yes", False: "no", None: None}[scope.thinking]
    return h.section(".choices", aria_label="Filters")[
        show_periods(request, filters.period.name),
        h.details(".choice", open=_has_filters(request))[
            h.summary["Filters"],
            h.form(".filters", method="get", action=request.path)[
                (h.input(type="hidden", name=name, value=value) for name, value in hidden.items()),
                _date_field("From", "from", filters),
                _date_field("To", "to", filters),
                select_field(
                    "Person", "user", user, _add_chosen(user, people, name_person(scope.user, names))
                ),
                select_field(
                    "Chat",
                    "chat",
                    scope.chat,
                    _add_chosen(scope.chat, chats, name_lane(scope.chat, names)),
                ),
                _text_field("Model", "model", scope.model, recent.models),
                _text_field("Tool", "tool", scope.tool, recent.tools),
                select_field("Endpoint", "endpoint", scope.endpoint, _to_options(get_args(EndpointRole))),
                select_field("Purpose", "purpose", scope.purpose, _to_options(get_args(CallPurpose))),
                select_field("Thinking", "thinking", thinking, (("yes", "on"), ("no", "off"))),
                fields,
                h.button["Show"],
                h.a(href=request.path)["Clear"],
            ],
        ],
    ]


def _has_filters(request: PageRequest) -> bool:
    return any(value for name, value in request.query.items() if name not in _UNFILTERED_NAMES)


def select_field(label: str, name: str, chosen: str | None, options: Iterable[tuple[str, str]]) -> h.Element:
    """A field with options, (value, text) each; the first one restricts nothing."""
    items = [h.option(value="")["all"]]
    items += [h.option(value=value, selected=value == chosen)[text] for value, text in options]
    return h.label[label, h.select(name=name)[items]]


def show_periods(request: PageRequest, current: str) -> h.Element:
    """A link for each period that has a name; `current` is that of the page."""
    others = dict.fromkeys(("from", "to", "before", "export"))
    return show_choice(
        "Period",
        (
            (text, change_query(request, **{**others, "period": name}), name == current)
            for name, text in PERIODS.items()
        ),
    )


def _date_field(label: str, name: str, filters: Filters) -> h.Element:
    # A link to an hour has a time of day, and what was typed into the address may be a word.
    value = filters.query.get(name, "")
    kind = _DATE_KINDS.get(len(value), "text")
    return h.label[label, h.input(type=kind, name=name, value=value)]


def _text_field(label: str, name: str, value: str | None, suggestions: Iterable[str]) -> h.Element:
    """A field for any text, with suggestions."""
    list_id = f"{name}-suggestions"
    return h.label[
        label,
        h.input(type="text", name=name, value=value or "", list=list_id, size="14", autocomplete="off"),
        h.datalist(id=list_id)[(h.option(value=text) for text in suggestions)],
    ]


def _add_chosen(chosen: str | None, options: Iterable[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """The options in the order of their texts; and the chosen one, such as a topic, if it is none of them."""
    ordered = sorted(options, key=lambda option: option[1].casefold())
    if chosen is not None and all(value != chosen for value, _ in ordered):
        ordered.append((chosen, text))
    return [(value, cut(text, MAX_OPTION_CHARACTERS)) for value, text in ordered]


def _to_options(values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in values]
