"""A tool and a source on the page: what is known of it, what waits, and the forms of what can be done.

Pure. Definitions are texts of strangers: they are shown with invisible characters spelled out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import htpy as h

from bot.admin.components import MAX_CHARACTERS, act_form, cut, hidden_field, show_section
from bot.admin.names import name_person
from bot.admin.page_request import PageRequest
from bot.db.people.page_sessions import ADMIN_PATH
from bot.tool_registry import formatting
from bot.tool_registry.admin_actions import PendingChange
from bot.tool_registry.grants import ADMINS, EVERYONE, GRANTEE_HELP, list_grantees
from bot.tool_registry.rule_parser import RULE_HELP
from bot.tool_registry.source_actions import PendingSource
from bot.tool_registry.source_info import SourceInfo, format_source
from bot.tool_registry.tool_info import ToolInfo
from bot.tool_registry.try_tool import ARGUMENTS_HELP, TrialResult, format_trial_result
from bot.translations.translator import ENGLISH
from bot.usage.plain_text import escape_for_terminal

TOOLS_PATH = f"{ADMIN_PATH}/tools"
MAX_SHOWN_CHARACTERS = 20_000  # of a definition or a result
_ACTIONS_ON_MACHINE = (
    ("canvasgram tools add URL --name NAME", "adds the tools of a service"),
    ("canvasgram tools secret set NAME", "asks for a secret, and keeps it encrypted"),
    ("canvasgram tools remove NAME", "removes a tool or a source"),
    ("canvasgram tools --help", "lists the rest"),
)


def build_tool_path(name: str) -> str:
    """The address of a tool's or a source's page."""
    return f"{TOOLS_PATH}/{quote(name, safe='')}"


def spell_out(text: str, limit: int = MAX_CHARACTERS) -> str:
    """One line of a text that a stranger wrote, with invisible characters spelled out."""
    return cut(escape_for_terminal(text), limit)


def show_commands() -> h.Element:
    """What is done on the machine, for a browser is no place for secrets."""
    items = (h.li[h.code[command], f" {effect}"] for command, effect in _ACTIONS_ON_MACHINE)
    return show_section("On the machine of the gateway", h.ul[items])


def show_switch(request: PageRequest, name: str, *, is_on: bool) -> h.Element:
    """The button that disables a tool or a source, or enables it."""
    path = build_tool_path(name)
    if is_on:
        return act_form(request, f"{path}/disable", "Disable")
    return act_form(request, f"{path}/enable", "Enable")


def show_facts(info: ToolInfo, names: Mapping[int, str]) -> h.Element:
    """Where a tool comes from, who may use it, and what is set for it."""
    source: h.Node = "built in"
    if info.source is not None:
        kind = ENGLISH(formatting.SOURCE_KINDS[info.source.kind])
        link = h.a(href=build_tool_path(info.source.name))[spell_out(info.source.name)]
        source = [link, f", {kind}, {spell_out(info.source.address)}"]
    rule = formatting.format_effective_rule(ENGLISH, info)
    facts: dict[str, h.Node] = {
        "State": formatting.format_state(ENGLISH, info),
        "From": source,
        "May use it": formatting.format_grantees(ENGLISH, info, lambda number: name_person(number, names)),
        "Rule": f"{rule} (set by an admin)" if info.is_set else rule,
    }
    if info.source is not None:
        facts["Results"] = formatting.format_reduction(ENGLISH, info)
        facts["Trust"] = formatting.format_trust(ENGLISH, info.source)
    if info.is_of_service:
        facts["Files"] = formatting.format_delivery(ENGLISH, info)
    facts["Cost"] = f"about {info.prompt_tokens:,} tokens of every prompt that offers it"
    if info.flagged is not None:
        facts["Flagged"] = spell_out(info.flagged, 300)
    return h.dl(".facts")[([h.dt[label], h.dd[fact]] for label, fact in facts.items())]


def show_forms(
    request: PageRequest, name: str, infos: Sequence[ToolInfo], names: Mapping[int, str]
) -> h.Element:
    """The forms of what can be set for these tools: one, or all of the source called `name`."""
    path = build_tool_path(name)
    grant = _show_form(request, f"{path}/grant", "Grant", "Who may use it", _grantee_field(names))
    revocations = _show_revocations(request, path, infos, names)
    rule_field = _text_field("rule", "always admins")
    rule = _show_form(request, f"{path}/rule", "Set the rule", "Asks first", rule_field)
    settings = [
        _show_setting([grant, revocations], formatting.format_grant_hint(ENGLISH, infos)),
        _show_setting(rule, ENGLISH(RULE_HELP)),
    ]
    if any(info.source is not None for info in infos):
        field = _text_field("reduction", "results[:6].{title: title, url: url}")
        reduction = _show_form(request, f"{path}/reduce", "Set", "What the model reads of a result", field)
        settings.append(_show_setting(reduction, "A JMESPath; empty: the whole result."))
    if any(info.is_of_service for info in infos):
        delivers = all(info.delivers for info in infos if info.is_of_service)
        choice = h.select(name="deliver")[
            h.option(value="on", selected=delivers)["yes"], h.option(value="off", selected=not delivers)["no"]
        ]
        delivery = _show_form(request, f"{path}/deliver", "Set", "Sends pictures and files", choice)
        settings.append(_show_setting(delivery, "Those that its service returns, to the person."))
    return show_section("Change", settings)


def _show_setting(forms: h.Node, hint: str) -> h.Element:
    return h.div(".setting")[h.div(".acts")[forms], h.p(".hint")[hint.strip()]]


def show_trial_form(request: PageRequest, name: str) -> h.Element:
    """The form that runs a tool once."""
    field = h.textarea(name="arguments", rows="3", cols="50", placeholder='{"city": "Rome"}')
    form = _show_form(request, f"{build_tool_path(name)}/try", "Try", "Arguments", field)
    hint = f"{ENGLISH(ARGUMENTS_HELP)}. It really runs, once; what it changes is changed. The audit keeps it."
    return show_section("Try", form, h.p(".hint")[hint])


def show_trial(result: TrialResult) -> h.Element:
    """What a trial returned."""
    lines = "\n".join(escape_for_terminal(line) for line in format_trial_result(ENGLISH, result))
    back = h.p[h.a(href=build_tool_path(result.name))["Back to the tool"]]
    return h.div[_show_text(lines), back]


def show_definition(info: ToolInfo) -> h.Element:
    """The definition as the model reads it."""
    definition = formatting.format_definition(ENGLISH, info.effective_definition, info.source_kind)
    return show_section("What the model is told", _show_text("\n".join(definition)))


def show_pending_change(request: PageRequest, change: PendingChange) -> h.Element:
    """A definition that waits beside the accepted one, with the button that accepts just this one."""
    before, after = change.prompt_tokens
    accept = act_form(
        request, f"{build_tool_path(change.tool_name)}/accept", "Accept", hidden_field("seen", change.hash)
    )
    flags = [h.li["Look closely: ", escape_for_terminal(flag)] for flag in change.flags]
    return show_section(
        "Waits to be accepted",
        flags and h.ul(".flags")[flags],
        _compare(change, f"Accepted, about {before:,} tokens", f"New, about {after:,} tokens"),
        h.div(".acts")[accept],
    )


def _compare(change: PendingChange, title_before: str, title_after: str) -> h.Element:
    after = list(formatting.format_json(change.after))
    if change.before is None:
        return h.div(".compare")[_show_version(title_after, after, ())]
    before = list(formatting.format_json(change.before))
    return h.div(".compare")[
        _show_version(title_before, before, after), _show_version(title_after, after, before)
    ]


def _show_version(title: str, lines: Sequence[str], others: Sequence[str]) -> h.Element:
    """A version; lines that the other one does not have are marked, if there is another one."""
    left = Counter(others)
    shown: list[h.Node] = []
    for line in _cut_lines(lines):
        is_new = bool(others) and left[line] == 0
        left[line] -= 1
        shown += [h.mark[line] if is_new else line, "\n"]
    return h.div[h.h3[title], h.pre(tabindex="0")[shown]]


def show_source(info: SourceInfo) -> h.Element:
    """What is known of a source, a line each, but for its tools; secrets are named only."""
    lines = list(format_source(ENGLISH, info))
    return _show_text("\n".join(lines[: -1 - len(info.tools)]))  # its tools follow in a table


def show_pending_source(request: PageRequest, pending: PendingSource) -> h.Element:
    """All that waits of a source; the button accepts just that, and nothing whose words are flagged."""
    flagged = [
        h.li[h.a(href=build_tool_path(name))[spell_out(name)], " wants a second look: accept it by itself"]
        for name in pending.flagged
    ]
    accept = None
    if pending.changes:
        label = f"Accept all {len(pending.changes)}" if len(pending.changes) > 1 else "Accept"
        path = f"{build_tool_path(pending.source)}/accept"
        accept = act_form(request, path, label, hidden_field("seen", pending.hash))
    versions = [
        h.details[
            h.summary[f"{spell_out(change.tool_name)}, {_describe(change)}"],
            _compare(change, "Accepted", "New"),
        ]
        for change in pending.changes
    ]
    return show_section(
        "Waits to be accepted", flagged and h.ul(".flags")[flagged], versions, h.div(".acts")[accept]
    )


def _describe(change: PendingChange) -> str:
    before, after = change.prompt_tokens
    if change.before is None:
        return f"new, about {after:,} tokens"
    return f"changed, about {before:,} → {after:,} tokens"


def _show_form(request: PageRequest, path: str, button: str, label: str, field: h.Node) -> h.Element:
    return act_form(request, path, button, h.label[label, field])


def _grantee_field(names: Mapping[int, str]) -> h.Fragment:
    people = (h.option(value=str(number))[cut(name)] for number, name in names.items() if number > 0)
    chats = (h.option(value=f"chat {number}")[cut(name)] for number, name in names.items() if number < 0)
    return h.fragment[
        h.input(name="whom", list="grantees", required=True, autocomplete="off", title=ENGLISH(GRANTEE_HELP)),
        h.datalist(id="grantees")[h.option(value="everyone"), people, chats],
    ]


def _text_field(name: str, placeholder: str) -> h.VoidElement:
    return h.input(name=name, placeholder=placeholder, size="30", autocomplete="off")


def _show_revocations(
    request: PageRequest, path: str, infos: Iterable[ToolInfo], names: Mapping[int, str]
) -> list[h.Element]:
    """A button for each grant that can be taken back."""
    grantees = dict.fromkeys(grantee for info in infos for grantee in list_grantees(info))
    buttons = []
    for grantee in grantees:
        if grantee == ADMINS:
            continue
        whom = formatting.format_grantee(ENGLISH, grantee, lambda number: name_person(number, names))
        field = hidden_field("whom", grantee if grantee == EVERYONE else _to_words(str(grantee)))
        buttons.append(act_form(request, f"{path}/revoke", f"Revoke: {whom}", field))
    return buttons


def _to_words(grantee: str) -> str:
    """A grantee as it is typed: a person by the number alone."""
    return grantee.removeprefix("person ")


def _show_text(text: str) -> h.Element:
    return h.pre(tabindex="0")["\n".join(_cut_lines(text.split("\n")))]


def _cut_lines(lines: Sequence[str]) -> list[str]:
    """The lines, as far as MAX_SHOWN_CHARACTERS reach."""
    kept: list[str] = []
    room = MAX_SHOWN_CHARACTERS
    for line in lines:
        if room <= 0:
            return [*kept, "…"]
        kept.append(line if len(line) <= room else f"{line[:room]}…")
        room -= len(line) + 1
    return kept
