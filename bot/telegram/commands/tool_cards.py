"""The buttons of /tools: pages of the list, a tool's card, and what a tap on them changes.

A button names its tool in a few letters and what it accepts by its hash, so that a late tap does nothing
else.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from bot.db.tools import sources
from bot.domain import Button, Part
from bot.errors import ChangeRefused, NeedsConfirming
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands.long_text import ButtonRows, build_parts, truncate_text
from bot.telegram.commands.tool_names import (
    build_admin_action,
    find_tool_by_hash,
    hash_name,
    load_person_names,
)
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry.tool_info import ToolInfo, load_tool_info, load_tool_infos

TOOLS_PER_PAGE = 10  # tools of one page of the list
_HASH_CHARS = 32  # letters of a hash in a button


async def handle_tool_button(context: ActionContext) -> ActionResult:
    """A button of the list or of a card; `call.words` is what to do and with which tool, such as `off:3f2a…`."""
    verb, _, which = context.args.partition(":")
    tap = _BUTTON_ACTIONS.get(verb)
    if tap is None:
        return BUTTON_EXPIRED
    try:
        answer = await tap(context, which)
        return replace(answer, changes_tools=verb in _CHANGING_ACTIONS)
    except ChangeRefused as refused:
        return ActionResult(toast=str(refused))


async def build_tool_page(context: ActionContext, number: int) -> Part:
    """A page of the list: a line a tool, its number a button."""
    found = await load_tool_infos(context.tx, context.deps.builtin_tools)
    last = max(0, (len(found) - 1) // TOOLS_PER_PAGE)
    number = min(number, last)
    some = found[number * TOOLS_PER_PAGE : (number + 1) * TOOLS_PER_PAGE]
    first = number * TOOLS_PER_PAGE + 1
    name = await load_person_names(context)
    lines = [f"{at}. {words.format_tool_line(one, name)}" for at, one in enumerate(some, start=first)]
    if last:
        heading = f"Tools, {first} to {first + len(some) - 1} of {len(found)}:"
    else:
        heading = "Tools:"
    sourced = [] if number < last else await _format_sources(context, found)
    buttons = [
        Button(f"{at}", f"tools:card:{hash_name(one.name)}") for at, one in enumerate(some, start=first)
    ]
    rows = [tuple(buttons[at : at + 5]) for at in range(0, len(buttons), 5)]
    turn = [Button("◀", f"tools:page:{number - 1}")] if number else []
    turn += [Button("▶", f"tools:page:{number + 1}")] if number < last else []
    return Part(
        truncate_text("\n".join([heading, *lines, *sourced])),
        buttons=tuple(rows) + ((tuple(turn),) if turn else ()),
    )


async def _format_sources(context: ActionContext, tools: Sequence[ToolInfo]) -> list[str]:
    """The sources, a line each; of the house's own there is none."""
    lines = []
    for one in await sources.list_all(context.tx):
        mine = sum(card.source is not None and card.source.name == one.name for card in tools)
        lines.append(f"{words.format_source_line(one)} · {mine} tool{'' if mine == 1 else 's'}")
    if lines:
        return ["", "Sources:", *lines]
    return []


async def build_removal_question(context: ActionContext, name: str) -> Part:
    """The question before a source, or a tool, is removed."""
    source = await sources.find(context.tx, name)
    if source is None:
        found = await load_tool_info(context.tx, context.deps.builtin_tools, name)
        if not found.is_removable:
            raise ChangeRefused(f"{name} cannot be removed alone; it can be disabled.")
        question = f"Remove the tool {name}?"
    else:
        mine = [
            one.name
            for one in await load_tool_infos(context.tx, context.deps.builtin_tools)
            if one.source and one.source.name == name
        ]
        tools = "1 tool" if len(mine) == 1 else f"{len(mine)} tools"
        question = f"Remove the source {name} with {tools}? {', '.join(mine)}"
    row = (Button("Remove", f"tools:gone:{hash_name(name)}"), Button("Keep", "tools:page:0"))
    return Part(truncate_text(question), buttons=(row,))


async def _show_page(context: ActionContext, payload: str) -> ActionResult:
    if payload.isdecimal() and len(payload) < 5:
        return ActionResult(replacement=await build_tool_page(context, int(payload)))
    return BUTTON_EXPIRED


async def _show_card(context: ActionContext, payload: str) -> ActionResult:
    found = await find_tool_by_hash(context, payload)
    if found:
        return ActionResult(replacement=await _build_card(context, found.name))
    return BUTTON_EXPIRED


async def _set_enabled(context: ActionContext, payload: str, *, enabled: bool) -> ActionResult:
    found = await find_tool_by_hash(context, payload)
    if found is None:
        return BUTTON_EXPIRED
    await registering.set_enabled(build_admin_action(context), found.name, enabled=enabled)
    return ActionResult(
        toast=f"{found.name} is {'on' if enabled else 'off'}.",
        replacement=await _build_card(context, found.name),
    )


async def _ask_removal(context: ActionContext, payload: str) -> ActionResult:
    found = await find_tool_by_hash(context, payload)
    if found:
        return ActionResult(replacement=await build_removal_question(context, found.name))
    return BUTTON_EXPIRED


async def _remove(context: ActionContext, payload: str) -> ActionResult:
    names = [one.name for one in await sources.list_all(context.tx)]
    names += [one.name for one in await load_tool_infos(context.tx, context.deps.builtin_tools)]
    name = next((one for one in names if hash_name(one) == payload), None)
    if name is None:
        return ActionResult(toast="It is gone already.", replacement=await build_tool_page(context, 0))
    went = await registering.remove_source_or_tool(build_admin_action(context), name)
    return ActionResult(
        toast=f"Removed: {', '.join(went) or name}.", replacement=await build_tool_page(context, 0)
    )


async def _ask_acceptance(context: ActionContext, payload: str) -> ActionResult:
    found = await find_tool_by_hash(context, payload)
    if found:
        return ActionResult(parts=await build_acceptance_parts(context, found.name))
    return BUTTON_EXPIRED


async def _accept(context: ActionContext, payload: str, *, confirmed: bool = False) -> ActionResult:
    """Accept what was shown; what is flagged is asked a second time."""
    sealed, _, hash = payload.partition(":")
    found = await find_tool_by_hash(context, sealed)
    if found is None:
        return BUTTON_EXPIRED
    act = build_admin_action(context)
    waits = await registering.get_pending_change(act, found.name)
    if hash != waits.hash[:_HASH_CHARS]:
        return ActionResult(toast=f"{found.name} has changed again since it was shown. Look at it anew.")
    try:
        await registering.accept_change(act, found.name, seen_hash=waits.hash, confirmed=confirmed)
    except NeedsConfirming as doubt:
        sure = Button("Accept all the same", f"tools:sure:{sealed}:{hash}")
        asked = "\n".join(
            (doubt.summary, *doubt.reasons, "Whoever wrote this may want to steer the assistant.")
        )
        return ActionResult(
            replacement=Part(
                truncate_text(asked), buttons=((sure, Button("Leave it", f"tools:card:{sealed}")),)
            )
        )
    return ActionResult(
        toast=f"{found.name} is accepted.", replacement=await _build_card(context, found.name)
    )


async def build_acceptance_parts(context: ActionContext, name: str) -> tuple[Part, ...]:
    """What waits to be accepted of a tool; a button accepts just that."""
    waits = await registering.get_pending_change(build_admin_action(context), name)
    button = Button("Accept", f"tools:take:{hash_name(name)}:{waits.hash[:_HASH_CHARS]}")
    return build_parts(list(words.format_pending_change(waits)), ((button,),))


async def _build_card(context: ActionContext, name: str) -> Part:
    """A tool's card as one message, cut where it is longer."""
    found = await load_tool_info(context.tx, context.deps.builtin_tools, name)
    text = "\n".join(words.format_tool(found, await load_person_names(context)))
    return Part(truncate_text(text), buttons=build_card_buttons(found))


def build_card_buttons(tool: ToolInfo) -> ButtonRows:
    """What can be done about a tool."""
    sealed = hash_name(tool.name)
    if tool.state == "off":
        switch = Button("Enable", f"tools:on:{sealed}")
    else:
        switch = Button("Disable", f"tools:off:{sealed}")
    row = [switch]
    if tool.pending is not None or tool.flagged is not None:
        row.append(Button("See what to accept", f"tools:see:{sealed}"))
    if tool.is_removable:
        row.append(Button("Remove", f"tools:drop:{sealed}"))
    return tuple(row), (Button("All tools", "tools:page:0"),)


_CHANGING_ACTIONS = {"on", "off", "gone", "take", "sure"}
_BUTTON_ACTIONS: dict[str, Callable[[ActionContext, str], Awaitable[ActionResult]]] = {
    "page": _show_page,
    "card": _show_card,
    "on": partial(_set_enabled, enabled=True),
    "off": partial(_set_enabled, enabled=False),
    "drop": _ask_removal,
    "gone": _remove,
    "see": _ask_acceptance,
    "take": _accept,
    "sure": partial(_accept, confirmed=True),
    "list": picking.show_page,
    "tick": picking.toggle_operation,
    "make": picking.add_chosen,
    "host": picking.confirm_hosts,
}
