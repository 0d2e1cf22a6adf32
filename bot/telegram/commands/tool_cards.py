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
from bot.telegram.actions import TOO_OLD, Answer, Call
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands.long_text import Rows, cut, parts
from bot.telegram.commands.tool_names import act_of, named, seal, sealed_tool
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry.tool_info import Card, card, cards

A_PAGE = 10  # tools of one page of the list
_HASH = 32  # letters of a hash in a button


async def tapped(call: Call) -> Answer:
    """A button of the list or of a card; `call.words` is what to do and with which tool, such as `off:3f2a…`."""
    verb, _, which = call.words.partition(":")
    tap = _TAPS.get(verb)
    if tap is None:
        return TOO_OLD
    try:
        answer = await tap(call, which)
        return replace(answer, renews=verb in _CHANGES)
    except ChangeRefused as refused:
        return Answer(toast=str(refused))


async def page(call: Call, number: int) -> Part:
    """A page of the list: a line a tool, its number a button."""
    found = await cards(call.tx, call.reach.own)
    last = max(0, (len(found) - 1) // A_PAGE)
    number = min(number, last)
    some = found[number * A_PAGE : (number + 1) * A_PAGE]
    first = number * A_PAGE + 1
    name = await named(call)
    lines = [f"{at}. {words.brief(one, name)}" for at, one in enumerate(some, start=first)]
    if last:
        heading = f"Tools, {first} to {first + len(some) - 1} of {len(found)}:"
    else:
        heading = "Tools:"
    sourced = [] if number < last else await _sources(call, found)
    buttons = [Button(f"{at}", f"tools:card:{seal(one.name)}") for at, one in enumerate(some, start=first)]
    rows = [tuple(buttons[at : at + 5]) for at in range(0, len(buttons), 5)]
    turn = [Button("◀", f"tools:page:{number - 1}")] if number else []
    turn += [Button("▶", f"tools:page:{number + 1}")] if number < last else []
    return Part(
        cut("\n".join([heading, *lines, *sourced])), buttons=tuple(rows) + ((tuple(turn),) if turn else ())
    )


async def _sources(call: Call, found: Sequence[Card]) -> list[str]:
    """The sources, a line each; of the house's own there is none."""
    lines = []
    for one in await sources.all_of(call.tx):
        mine = sum(card.source is not None and card.source.name == one.name for card in found)
        lines.append(f"{words.source(one)} · {mine} tool{'' if mine == 1 else 's'}")
    if lines:
        return ["", "Sources:", *lines]
    return []


async def removing(call: Call, name: str) -> Part:
    """The question before a source, or a tool, is removed."""
    source = await sources.find(call.tx, name)
    if source is None:
        found = await card(call.tx, call.reach.own, name)
        if not found.is_removable:
            raise ChangeRefused(f"{name} cannot be removed alone; it can be disabled.")
        question = f"Remove the tool {name}?"
    else:
        mine = [
            one.name for one in await cards(call.tx, call.reach.own) if one.source and one.source.name == name
        ]
        tools = "1 tool" if len(mine) == 1 else f"{len(mine)} tools"
        question = f"Remove the source {name} with {tools}? {', '.join(mine)}"
    row = (Button("Remove", f"tools:gone:{seal(name)}"), Button("Keep", "tools:page:0"))
    return Part(cut(question), buttons=(row,))


async def _turn_page(call: Call, which: str) -> Answer:
    if which.isdecimal() and len(which) < 5:
        return Answer(redraw=await page(call, int(which)))
    return TOO_OLD


async def _card(call: Call, which: str) -> Answer:
    found = await sealed_tool(call, which)
    if found:
        return Answer(redraw=await _drawn(call, found.name))
    return TOO_OLD


async def _switch(call: Call, which: str, *, enabled: bool) -> Answer:
    found = await sealed_tool(call, which)
    if found is None:
        return TOO_OLD
    await registering.enable(act_of(call), found.name, enabled=enabled)
    return Answer(
        toast=f"{found.name} is {'on' if enabled else 'off'}.", redraw=await _drawn(call, found.name)
    )


async def _ask_removing(call: Call, which: str) -> Answer:
    found = await sealed_tool(call, which)
    if found:
        return Answer(redraw=await removing(call, found.name))
    return TOO_OLD


async def _gone(call: Call, which: str) -> Answer:
    names = [one.name for one in await sources.all_of(call.tx)]
    names += [one.name for one in await cards(call.tx, call.reach.own)]
    name = next((one for one in names if seal(one) == which), None)
    if name is None:
        return Answer(toast="It is gone already.", redraw=await page(call, 0))
    went = await registering.remove(act_of(call), name)
    return Answer(toast=f"Removed: {', '.join(went) or name}.", redraw=await page(call, 0))


async def _ask_accepting(call: Call, which: str) -> Answer:
    found = await sealed_tool(call, which)
    if found:
        return Answer(parts=await accepting(call, found.name))
    return TOO_OLD


async def _take(call: Call, which: str, *, confirmed: bool = False) -> Answer:
    """Accept what was shown; what is flagged is asked a second time."""
    sealed, _, hash = which.partition(":")
    found = await sealed_tool(call, sealed)
    if found is None:
        return TOO_OLD
    act = act_of(call)
    waits = await registering.difference(act, found.name)
    if hash != waits.hash[:_HASH]:
        return Answer(toast=f"{found.name} has changed again since it was shown. Look at it anew.")
    try:
        await registering.accept(act, found.name, seen=waits.hash, confirmed=confirmed)
    except NeedsConfirming as doubt:
        sure = Button("Accept all the same", f"tools:sure:{sealed}:{hash}")
        asked = "\n".join((doubt.why, *doubt.reasons, "Whoever wrote this may want to steer the assistant."))
        return Answer(redraw=Part(cut(asked), buttons=((sure, Button("Leave it", f"tools:card:{sealed}")),)))
    return Answer(toast=f"{found.name} is accepted.", redraw=await _drawn(call, found.name))


async def accepting(call: Call, name: str) -> tuple[Part, ...]:
    """What waits to be accepted of a tool; a button accepts just that."""
    waits = await registering.difference(act_of(call), name)
    button = Button("Accept", f"tools:take:{seal(name)}:{waits.hash[:_HASH]}")
    return parts(list(words.difference(waits)), ((button,),))


async def _drawn(call: Call, name: str) -> Part:
    """A tool's card as one message, cut where it is longer."""
    found = await card(call.tx, call.reach.own, name)
    text = "\n".join(words.shown(found, await named(call)))
    return Part(cut(text), buttons=buttons(found))


def buttons(found: Card) -> Rows:
    """What can be done about a tool."""
    sealed = seal(found.name)
    if found.state == "off":
        switch = Button("Enable", f"tools:on:{sealed}")
    else:
        switch = Button("Disable", f"tools:off:{sealed}")
    row = [switch]
    if found.pending is not None or found.flagged is not None:
        row.append(Button("See what to accept", f"tools:see:{sealed}"))
    if found.is_removable:
        row.append(Button("Remove", f"tools:drop:{sealed}"))
    return tuple(row), (Button("All tools", "tools:page:0"),)


_CHANGES = {"on", "off", "gone", "take", "sure"}
_TAPS: dict[str, Callable[[Call, str], Awaitable[Answer]]] = {
    "page": _turn_page,
    "card": _card,
    "on": partial(_switch, enabled=True),
    "off": partial(_switch, enabled=False),
    "drop": _ask_removing,
    "gone": _gone,
    "see": _ask_accepting,
    "take": _take,
    "sure": partial(_take, confirmed=True),
    "list": picking.listed,
    "tick": picking.ticked,
    "make": picking.made,
    "host": picking.confirmed,
}
