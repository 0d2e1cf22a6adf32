"""The list of a document's operations, each with a button that ticks it; what is ticked is added together.

Ticks are kept with the source; a host other than the document's own is confirmed before anything is asked of
it.
"""

from collections.abc import Sequence

from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Button, Part
from bot.telegram.actions import TOO_OLD, Answer, Call
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.long_text import cut
from bot.telegram.commands.tool_names import act_of, seal
from bot.tool_registry import add_source as adding
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry.openapi_sources import Operation
from bot.usage.plain_text import plain

A_PAGE = 10
SUMMARY = 80  # characters of what an operation says of itself


def page(source: Source, number: int) -> Part:
    """A page of the operations: a line each, its number a button."""
    there = documents.offered(source)
    chosen = set(source.options.get("chosen", ()))
    number = max(0, min(number, (len(there) - 1) // A_PAGE))
    first = number * A_PAGE
    some = list(enumerate(there[first : first + A_PAGE], start=first))
    have = documents.picked_of(source)
    lines = [f"{at + 1}. {_line(one, added=one.operation in have)}" for at, one in some]
    sealed = seal(source.name)
    ticks = [
        Button(f"✓ {at + 1}" if at in chosen else f"{at + 1}", f"tools:tick:{sealed}:{at}")
        for at, one in some
        if one.operation not in have
    ]
    turn = [Button("◀", f"tools:list:{sealed}:{number - 1}")] if number else []
    turn += [Button("▶", f"tools:list:{sealed}:{number + 1}")] if first + A_PAGE < len(there) else []
    if chosen:
        add = [Button(f"Add {len(chosen)}", f"tools:make:{sealed}")]
    else:
        add = []
    rows = [tuple(ticks[at : at + 5]) for at in range(0, len(ticks), 5)]
    heading = f"{plain(source.name)}: which of these {len(there)} operations? /tools pick {source.name} 1 3 does it, too."
    return Part(
        cut("\n".join([heading, *lines])), buttons=tuple(row for row in (*rows, tuple(turn + add)) if row)
    )


def _line(one: Operation, *, added: bool) -> str:
    summary = f" – {plain(one.summary[:SUMMARY])}" if one.summary else ""
    return f"{plain(one.name)} · {one.method} {plain(one.path)}{summary}{' · added' if added else ''}"


async def listed(call: Call, which: str) -> Answer:
    """Another page of the list."""
    source, number = await _meant(call, which)
    if source is None:
        return TOO_OLD
    return Answer(redraw=page(source, number))


async def ticked(call: Call, which: str) -> Answer:
    """Tick an operation, or take its tick away."""
    source, place = await _meant(call, which)
    if source is None or place >= len(documents.offered(source)):
        return TOO_OLD
    return Answer(redraw=page(await adding.choose(act_of(call), source.name, place), place // A_PAGE))


async def made(call: Call, which: str) -> Answer:
    """Add what is ticked; hosts that nobody has confirmed are asked about first."""
    source, _ = await _meant(call, f"{which}:0")
    chosen = _chosen(source) if source else []
    if source is None or not chosen:
        return TOO_OLD
    hosts = documents.foreign(source, chosen)
    if hosts:
        return Answer(redraw=_asked(source, hosts))
    return await _send(call, source, chosen)


async def confirmed(call: Call, which: str) -> Answer:
    """The hosts that were shown are agreed to; where others have come since, they are shown first."""
    sealed, _, shown = which.partition(":")
    source, _ = await _meant(call, f"{sealed}:0")
    chosen = _chosen(source) if source else []
    if source is None or not chosen:
        return TOO_OLD
    hosts = documents.foreign(source, chosen)
    if hosts and seal(" ".join(hosts)) != shown:
        return Answer(redraw=_asked(source, hosts))
    await adding.confirm(act_of(call), source.name, hosts)
    return await _send(call, source, chosen)


def _asked(source: Source, hosts: Sequence[str]) -> Part:
    """Whether calls may go to these hosts; the button agrees to just them."""
    names = ", ".join(plain(one) for one in hosts)
    asked = (
        f"{plain(source.name)} is at {plain(source.address)}, but these calls would go to {names}. Let them?"
    )
    sealed = seal(source.name)
    sure = Button("Let them", f"tools:host:{sealed}:{seal(' '.join(hosts))}")
    return Part(cut(asked), buttons=((sure, Button("No", f"tools:list:{sealed}:0")),))


async def _send(call: Call, source: Source, chosen: Sequence[str]) -> Answer:
    there = [one.operation for one in documents.offered(source)]
    numbers = [str(there.index(one) + 1) for one in chosen]
    sent = await errands.write(call, "pick", {"words": " ".join([source.name, *numbers])})
    return Answer(
        toast="They are added.", redraw=Part(f"I add {len(numbers)} of {source.name}."), then=sent.then
    )


def _chosen(source: Source) -> list[str]:
    there = documents.offered(source)
    return [there[at].operation for at in source.options.get("chosen", ()) if at < len(there)]


async def _meant(call: Call, which: str) -> tuple[Source | None, int]:
    """The document and the number a button names."""
    sealed, _, number = which.partition(":")
    if not number.isdecimal() or len(number) > 4:
        return None, 0
    found = [
        one for one in await sources.all_of(call.tx) if one.kind == "openapi" and seal(one.name) == sealed
    ]
    return (found[0] if found else None), int(number)
