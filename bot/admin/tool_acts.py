"""What admins change about tools on the page: the acts of chat and command line, with the admin as actor.

A name is that of a tool or, for all of its tools, of a source. The running gateway takes each change over
at once.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import htpy as h

from bot.admin.components import act_form, hidden_field, show_section
from bot.admin.page_request import Act, PageRequest, Redirect, ScreenPage
from bot.admin.tool_pages import build_tool_path, show_trial
from bot.db.people import people
from bot.domain import Lane
from bot.errors import NeedsConfirming, NothingFound, StoreUnavailable
from bot.tool_registry import admin_actions, formatting, grants, source_actions, tool_settings
from bot.tool_registry.admin_actions import AdminAction, begin_action
from bot.tool_registry.source_actions import change_tools
from bot.tool_registry.sources import NOBODY
from bot.tool_registry.tool_info import ToolInfo
from bot.tool_registry.try_tool import Trial, record_trial, run_trial
from bot.translations.translator import ENGLISH


@dataclass(frozen=True, slots=True)
class ToolForm:
    """What an act gets: the name of the tool or the source, and the fields of its form."""

    name: str
    fields: Mapping[str, str]

    def get(self, field: str) -> str:
        """A field; empty if the form has none of this name."""
        return self.fields.get(field, "").strip()


Change = Callable[[AdminAction, ToolForm], Awaitable[str]]
"""Changes something, and returns the line that says what holds now."""


async def _set_enabled(action: AdminAction, form: ToolForm, *, enabled: bool) -> str:
    kind = await admin_actions.set_enabled(action, form.name, enabled=enabled)
    scope = " with all its tools" if kind == "source" else ""
    return f"{form.name} is {'on' if enabled else 'off'}{scope}."


async def _accept(action: AdminAction, form: ToolForm) -> str:
    if await admin_actions.is_source(action, form.name):
        pending = await source_actions.accept_source(action, form.name, seen_hash=form.get("seen"))
        return f"Accepted: {', '.join(change.tool_name for change in pending.changes)}."
    confirmed = form.get("confirmed") == "yes"
    await admin_actions.accept_change(action, form.name, seen_hash=form.get("seen"), confirmed=confirmed)
    return f"{form.name} has been accepted."


async def _change_grant(action: AdminAction, form: ToolForm, *, is_grant: bool) -> str:
    change = grants.grant_tool if is_grant else grants.revoke_grant
    grantee = await grants.resolve_grantee(action.tx, form.get("whom"))
    changed = await change_tools(action, form.name, lambda tool: change(action, tool, grantee))
    names = await people.list_names(action.tx)

    def format_effect(info: ToolInfo) -> str:
        may_use = formatting.format_grantees(ENGLISH, info, lambda number: names.get(number, str(number)))
        return f" may be used by: {may_use}"

    return formatting.format_changed_tools(ENGLISH, form.name, changed, format_effect)


async def _set_rule(action: AdminAction, form: ToolForm) -> str:
    return await tool_settings.set_rule(action, ENGLISH, form.name, form.get("rule"))


async def _set_reduction(action: AdminAction, form: ToolForm) -> str:
    return await tool_settings.set_reduction(action, ENGLISH, form.name, form.get("reduction") or "default")


async def _set_delivery(action: AdminAction, form: ToolForm) -> str:
    return await tool_settings.set_delivery(action, ENGLISH, form.name, form.get("deliver"))


async def _do(change: Change, request: PageRequest, fields: Mapping[str, str]) -> Redirect | ScreenPage:
    """Make one change, and have the running gateway take it over."""
    form = ToolForm(request.parts["tool"], fields)
    try:
        async with request.write() as tx:
            action = await begin_action(tx, request.actor, request.now, request.dependencies.builtin_tools)
            note = await change(action, form)
    except NeedsConfirming as doubt:
        return _ask_to_confirm(request, form, doubt)
    with contextlib.suppress(StoreUnavailable):  # it is stored, and noticed a little later
        await request.gateway.tool_registry.refresh()
    return Redirect(build_tool_path(form.name), note)


def _ask_to_confirm(request: PageRequest, form: ToolForm, doubt: NeedsConfirming) -> ScreenPage:
    button = act_form(
        request,
        request.path,
        "Accept anyway",
        hidden_field("seen", form.get("seen")),
        hidden_field("confirmed", "yes"),
    )
    warning = h.p["Whoever wrote this may be trying to steer the assistant."]
    reasons = h.ul[(h.li[reason] for reason in doubt.reasons)]
    back = h.a(href=build_tool_path(form.name))["Leave it"]
    return ScreenPage(
        form.name, show_section(doubt.explain(ENGLISH), reasons, warning, h.div(".acts")[button, back])
    )


async def try_tool(request: PageRequest, fields: Mapping[str, str]) -> ScreenPage:
    """Run a tool once, outside any turn, and show what it returned."""
    form = ToolForm(request.parts["tool"], fields)
    tool = request.gateway.tool_registry.get(form.name)
    if tool is None:
        raise NothingFound(f"{form.name[:80]} cannot be used now; its page shows how it stands.")
    person = request.viewer.person or NOBODY
    trial = Trial(tool, form.get("arguments"), person, request.viewer.name, Lane(person))
    async with request.write():
        pass  # it runs for who is an admin now; what has run is recorded also for who is none any more
    result = await run_trial(request.dependencies.database, trial)
    async with request.dependencies.database.transaction() as tx:
        await record_trial(tx, request.actor, result, now=request.now)
    return ScreenPage(f"{form.name}, tried", show_trial(result))


_CHANGES: Mapping[str, Change] = {
    "enable": partial(_set_enabled, enabled=True),
    "disable": partial(_set_enabled, enabled=False),
    "accept": _accept,
    "grant": partial(_change_grant, is_grant=True),
    "revoke": partial(_change_grant, is_grant=False),
    "rule": _set_rule,
    "reduce": _set_reduction,
    "deliver": _set_delivery,
}
TOOL_ACTS: Mapping[str, Act] = {
    "/{tool}/try": try_tool,
    **{f"/{{tool}}/{verb}": partial(_do, change) for verb, change in _CHANGES.items()},
}
"""The acts by their paths below that of the screen."""
