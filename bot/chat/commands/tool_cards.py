"""The buttons of /tools: pages of the list, a tool's card, and what a tap on them changes.

A button names its tool by a short hash, and what it accepts by the definition's hash, so that a late tap
does nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    ButtonRows,
    SubAction,
    build_part,
    build_rows,
)
from bot.chat.commands import operation_picker
from bot.chat.commands.tool_text import (
    begin_admin_action,
    build_parts,
    find_source,
    find_tool_name,
    hash_name,
    load_person_names,
    truncate_text,
)
from bot.db.tools import sources
from bot.domain import Button, Part
from bot.errors import ChangeRefused, NeedsConfirming
from bot.tool_registry import admin_actions, formatting, source_actions
from bot.tool_registry.tool_info import ToolInfo, load_tool_info, load_tool_infos
from bot.translations.formats import format_series
from bot.translations.translator import Translator, translatable

TOOLS_PER_PAGE = 10
BUTTONS_PER_ROW = 5
_HASH_CHARS = 32  # of a definition's hash in a button
SWITCHED = {True: translatable("{name} is on."), False: translatable("{name} is off.")}
CHANGED_AGAIN = translatable("{name} has changed again since you saw it. Please look again.")


async def handle_tool_button(context: ActionContext) -> ActionResult:
    """A button of the list or of a card; `context.args` is the action and its payload, as in `off:3f2a`."""
    verb, _, payload = context.args.partition(":")
    action = _BUTTON_ACTIONS.get(verb)
    if action is None:
        raise ButtonExpired
    result = await action(context, payload)
    return replace(result, changes_tools=verb in _CHANGING_ACTIONS)


async def build_tool_page(context: ActionContext, page: int) -> Part:
    """Build a page of the list: a line for each tool, with its number as a button."""
    tools = await load_tool_infos(context.tx, context.deps.tools.builtin)
    translate = context.translate
    last_page = max(0, (len(tools) - 1) // TOOLS_PER_PAGE)
    page = min(page, last_page)
    start = page * TOOLS_PER_PAGE
    shown = tools[start : start + TOOLS_PER_PAGE]
    name_lookup = await load_person_names(context)
    lines = [translate("Tools:")]
    if last_page:
        end = start + len(shown)
        lines = [translate("Tools, {start} to {end} of {count}:", start=start + 1, end=end, count=len(tools))]
    buttons = []
    for number, tool in enumerate(shown, start=start + 1):
        lines.append(f"{number}. {formatting.format_tool_line(translate, tool, name_lookup)}")
        buttons.append(Button(f"{number}", f"tools:card:{hash_name(tool.name)}"))
    if page == last_page:
        lines += await _format_sources(context, tools)
    rows = build_rows(buttons, BUTTONS_PER_ROW)
    paging = []
    if page:
        paging.append(Button("◀", f"tools:page:{page - 1}"))
    if page < last_page:
        paging.append(Button("▶", f"tools:page:{page + 1}"))
    if paging:
        rows += (tuple(paging),)
    return build_part(truncate_text("\n".join(lines)), *rows)


async def _format_sources(context: ActionContext, tools: Sequence[ToolInfo]) -> list[str]:
    """Format the sources, a line each; built-in tools have none."""
    lines = []
    for source in await sources.list_all(context.tx):
        count = sum(tool.source is not None and tool.source.name == source.name for tool in tools)
        line = formatting.format_source_line(context.translate, source)
        tool_count = context.translate.plural("{count} tool", "{count} tools", count)
        lines.append(f"{line} · {tool_count}")
    if not lines:
        return []
    return ["", context.translate("Sources:"), *lines]


async def build_removal_question(context: ActionContext, name: str) -> Part:
    """Build the question before a source, or a tool, is removed. Raises ChangeRefused."""
    translate = context.translate
    source = await sources.find(context.tx, name)
    if source is None:
        tool = await load_tool_info(context.tx, context.deps.tools.builtin, name)
        if not tool.is_removable:
            raise ChangeRefused("{name} can't be removed on its own, but you can disable it.", name=name)
        question = translate("Remove the tool {name}?", name=name)
    else:
        tools = await load_tool_infos(context.tx, context.deps.tools.builtin)
        tool_names = [tool.name for tool in tools if tool.source and tool.source.name == name]
        names = format_series(translate, tool_names)
        question = translate.plural(
            "Remove the source {name} with {count} tool? {names}",
            "Remove the source {name} with {count} tools? {names}",
            len(tool_names),
            name=name,
            names=names,
        )
    confirm = Button(translate("Remove"), f"tools:gone:{hash_name(name)}")
    return build_part(truncate_text(question), (confirm, Button(translate("Keep"), "tools:page:0")))


async def _show_page(context: ActionContext, payload: str) -> ActionResult:
    if payload.isdecimal() and len(payload) < 5:
        return ActionResult(replacement=await build_tool_page(context, int(payload)))
    raise ButtonExpired


async def _show_card(context: ActionContext, payload: str) -> ActionResult:
    name = await find_tool_name(context, payload)
    return ActionResult(replacement=await _build_card(context, name))


async def _set_enabled(context: ActionContext, payload: str, *, enabled: bool) -> ActionResult:
    name = await find_tool_name(context, payload)
    await admin_actions.set_enabled(await begin_admin_action(context), name, enabled=enabled)
    toast = context.translate(SWITCHED[enabled], name=name)
    return ActionResult(toast=toast, replacement=await _build_card(context, name))


async def _ask_removal(context: ActionContext, payload: str) -> ActionResult:
    name = await find_tool_name(context, payload)
    return ActionResult(replacement=await build_removal_question(context, name))


async def _remove(context: ActionContext, payload: str) -> ActionResult:
    names = [source.name for source in await sources.list_all(context.tx)]
    names += [tool.name for tool in await load_tool_infos(context.tx, context.deps.tools.builtin)]
    name = next((name for name in names if hash_name(name) == payload), None)
    if name is None:
        toast = context.translate("It's already gone.")
        return ActionResult(toast=toast, replacement=await build_tool_page(context, 0))
    removed = await admin_actions.remove_source_or_tool(await begin_admin_action(context), name)
    toast = context.translate("Removed: {names}.", names=format_series(context.translate, removed) or name)
    return ActionResult(toast=toast, replacement=await build_tool_page(context, 0))


async def _ask_acceptance(context: ActionContext, payload: str) -> ActionResult:
    name = await find_tool_name(context, payload)
    return ActionResult(parts=await build_acceptance_parts(context, name))


async def _accept(context: ActionContext, payload: str, *, confirmed: bool) -> ActionResult:
    """Accept the change that was shown; a flagged one has to be confirmed a second time."""
    name_hash, _, change_hash = payload.partition(":")
    name = await find_tool_name(context, name_hash)
    action = await begin_admin_action(context)
    change = await admin_actions.get_pending_change(action, name)
    if change_hash != change.hash[:_HASH_CHARS]:
        raise ChangeRefused(CHANGED_AGAIN, name=name)
    try:
        await admin_actions.accept_change(action, name, seen_hash=change.hash, confirmed=confirmed)
    except NeedsConfirming as doubt:
        return ActionResult(replacement=_build_confirmation(context.translate, doubt, name_hash, change_hash))
    toast = context.translate("{name} has been accepted.", name=name)
    return ActionResult(toast=toast, replacement=await _build_card(context, name))


def _build_confirmation(
    translate: Translator, doubt: NeedsConfirming, name_hash: str, change_hash: str
) -> Part:
    warning = translate("Whoever wrote this may be trying to steer the assistant.")
    lines = (doubt.explain(translate), *doubt.reasons, warning)
    confirm = Button(translate("Accept anyway"), f"tools:sure:{name_hash}:{change_hash}")
    back = Button(translate("Leave it"), f"tools:card:{name_hash}")
    return build_part(truncate_text("\n".join(lines)), (confirm, back))


async def build_acceptance_parts(context: ActionContext, name: str) -> tuple[Part, ...]:
    """Show the change of a tool that is to be accepted; the button accepts only that change."""
    change = await admin_actions.get_pending_change(await begin_admin_action(context), name)
    button = Button(context.translate("Accept"), f"tools:take:{hash_name(name)}:{change.hash[:_HASH_CHARS]}")
    return build_parts(list(formatting.format_pending_change(context.translate, change)), ((button,),))


async def build_source_acceptance_parts(context: ActionContext, name: str) -> tuple[Part, ...]:
    """Show all that waits of a source; the button accepts only that, and nothing whose words are flagged."""
    pending = await source_actions.get_pending_source(await begin_admin_action(context), name)
    lines = list(formatting.format_pending_source(context.translate, pending))
    if not pending.changes:
        return build_parts(lines)
    label = context.translate("Accept")
    if len(pending.changes) > 1:
        label = context.translate("Accept all {count}", count=len(pending.changes))
    button = Button(label, f"tools:all:{hash_name(name)}:{pending.hash[:_HASH_CHARS]}")
    return build_parts(lines, ((button,),))


async def _accept_source(context: ActionContext, payload: str) -> ActionResult:
    """Accept what was shown of a source."""
    name_hash, _, pending_hash = payload.partition(":")
    name = (await find_source(context, name_hash)).name
    action = await begin_admin_action(context)
    pending = await source_actions.get_pending_source(action, name)
    if pending_hash != pending.hash[:_HASH_CHARS]:
        raise ChangeRefused(CHANGED_AGAIN, name=name)
    await source_actions.accept_source(action, name, seen_hash=pending.hash)
    names = [change.tool_name for change in pending.changes]
    text = context.translate("Accepted: {names}.", names=format_series(context.translate, names))
    toast = context.translate("{name} has been accepted.", name=name)
    return ActionResult(toast=toast, replacement=Part(truncate_text(text)))


async def _build_card(context: ActionContext, name: str) -> Part:
    """Build a tool's card as one message, cut where it is longer."""
    tool = await load_tool_info(context.tx, context.deps.tools.builtin, name)
    lines = formatting.format_tool(context.translate, tool, await load_person_names(context))
    text = truncate_text("\n".join(lines))
    return build_part(text, *build_card_buttons(context.translate, tool))


def build_card_buttons(translate: Translator, tool: ToolInfo) -> ButtonRows:
    """Build the buttons for what can be done with a tool."""
    name_hash = hash_name(tool.name)
    if tool.state == "off":
        switch = Button(translate("Enable"), f"tools:on:{name_hash}")
    else:
        switch = Button(translate("Disable"), f"tools:off:{name_hash}")
    row = [switch]
    if tool.pending is not None or tool.flagged is not None:
        row.append(Button(translate("Review changes"), f"tools:see:{name_hash}"))
    if tool.is_removable:
        row.append(Button(translate("Remove"), f"tools:drop:{name_hash}"))
    return tuple(row), (Button(translate("All tools"), "tools:page:0"),)


_CHANGING_ACTIONS = {"on", "off", "gone", "take", "sure", "all"}
_BUTTON_ACTIONS: dict[str, SubAction] = {
    "page": _show_page,
    "card": _show_card,
    "on": partial(_set_enabled, enabled=True),
    "off": partial(_set_enabled, enabled=False),
    "drop": _ask_removal,
    "gone": _remove,
    "see": _ask_acceptance,
    "take": partial(_accept, confirmed=False),
    "sure": partial(_accept, confirmed=True),
    "all": _accept_source,
    "list": operation_picker.show_page,
    "every": operation_picker.show_all,
    "tick": operation_picker.toggle_operation,
    "make": operation_picker.add_chosen,
    "host": operation_picker.confirm_hosts,
}
