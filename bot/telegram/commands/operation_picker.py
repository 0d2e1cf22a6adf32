"""The list of a document's operations, each with a button that ticks it; what is ticked is added together.

Ticks are kept with the source; a host other than the document's own is confirmed before anything is asked of
it.
"""

from collections.abc import Sequence

from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Button, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.long_text import truncate_text
from bot.telegram.commands.tool_names import build_admin_action, hash_name
from bot.tool_registry import add_source as adding
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry.openapi_sources import DocumentOperation
from bot.usage.plain_text import escape_for_terminal

OPERATIONS_PER_PAGE = 10
MAX_SUMMARY_CHARS = 80  # characters of what an operation says of itself


def build_operation_page(source: Source, number: int) -> Part:
    """A page of the operations: a line each, its number a button."""
    there = documents.list_operations(source)
    chosen = set(source.options.get("chosen", ()))
    number = max(0, min(number, (len(there) - 1) // OPERATIONS_PER_PAGE))
    first = number * OPERATIONS_PER_PAGE
    some = list(enumerate(there[first : first + OPERATIONS_PER_PAGE], start=first))
    have = documents.list_registered_operations(source)
    lines = [f"{at + 1}. {_format_operation(one, is_added=one.operation in have)}" for at, one in some]
    sealed = hash_name(source.name)
    ticks = [
        Button(f"✓ {at + 1}" if at in chosen else f"{at + 1}", f"tools:tick:{sealed}:{at}")
        for at, one in some
        if one.operation not in have
    ]
    turn = [Button("◀", f"tools:list:{sealed}:{number - 1}")] if number else []
    turn += (
        [Button("▶", f"tools:list:{sealed}:{number + 1}")] if first + OPERATIONS_PER_PAGE < len(there) else []
    )
    if chosen:
        add = [Button(f"Add {len(chosen)}", f"tools:make:{sealed}")]
    else:
        add = []
    rows = [tuple(ticks[at : at + 5]) for at in range(0, len(ticks), 5)]
    heading = f"{escape_for_terminal(source.name)}: which of these {len(there)} operations? /tools pick {source.name} 1 3 does it, too."
    return Part(
        truncate_text("\n".join([heading, *lines])),
        buttons=tuple(row for row in (*rows, tuple(turn + add)) if row),
    )


def _format_operation(operation: DocumentOperation, *, is_added: bool) -> str:
    summary = f" – {escape_for_terminal(operation.summary[:MAX_SUMMARY_CHARS])}" if operation.summary else ""
    return f"{escape_for_terminal(operation.name)} · {operation.method} {escape_for_terminal(operation.path)}{summary}{' · added' if is_added else ''}"


async def show_page(context: ActionContext, payload: str) -> ActionResult:
    """Another page of the list."""
    source, number = await _parse_payload(context, payload)
    if source is None:
        return BUTTON_EXPIRED
    return ActionResult(replacement=build_operation_page(source, number))


async def toggle_operation(context: ActionContext, payload: str) -> ActionResult:
    """Tick an operation, or take its tick away."""
    source, place = await _parse_payload(context, payload)
    if source is None or place >= len(documents.list_operations(source)):
        return BUTTON_EXPIRED
    return ActionResult(
        replacement=build_operation_page(
            await adding.toggle_operation(build_admin_action(context), source.name, place),
            place // OPERATIONS_PER_PAGE,
        )
    )


async def add_chosen(context: ActionContext, payload: str) -> ActionResult:
    """Add what is ticked; hosts that nobody has confirmed are asked about first."""
    source, _ = await _parse_payload(context, f"{payload}:0")
    chosen = _chosen_operations(source) if source else []
    if source is None or not chosen:
        return BUTTON_EXPIRED
    hosts = documents.find_unconfirmed_hosts(source, chosen)
    if hosts:
        return ActionResult(replacement=_build_hosts_question(source, hosts))
    return await _queue_pick(context, source, chosen)


async def confirm_hosts(context: ActionContext, payload: str) -> ActionResult:
    """The hosts that were shown are agreed to; where others have come since, they are shown first."""
    sealed, _, shown = payload.partition(":")
    source, _ = await _parse_payload(context, f"{sealed}:0")
    chosen = _chosen_operations(source) if source else []
    if source is None or not chosen:
        return BUTTON_EXPIRED
    hosts = documents.find_unconfirmed_hosts(source, chosen)
    if hosts and hash_name(" ".join(hosts)) != shown:
        return ActionResult(replacement=_build_hosts_question(source, hosts))
    await adding.confirm_hosts(build_admin_action(context), source.name, hosts)
    return await _queue_pick(context, source, chosen)


def _build_hosts_question(source: Source, hosts: Sequence[str]) -> Part:
    """Whether calls may go to these hosts; the button agrees to just them."""
    names = ", ".join(escape_for_terminal(one) for one in hosts)
    asked = f"{escape_for_terminal(source.name)} is at {escape_for_terminal(source.address)}, but these calls would go to {names}. Let them?"
    sealed = hash_name(source.name)
    sure = Button("Let them", f"tools:host:{sealed}:{hash_name(' '.join(hosts))}")
    return Part(truncate_text(asked), buttons=((sure, Button("No", f"tools:list:{sealed}:0")),))


async def _queue_pick(context: ActionContext, source: Source, chosen: Sequence[str]) -> ActionResult:
    there = [one.operation for one in documents.list_operations(source)]
    numbers = [str(there.index(one) + 1) for one in chosen]
    sent = await errands.write_tool_task(context, "pick", {"words": " ".join([source.name, *numbers])})
    return ActionResult(
        toast="They are added.",
        replacement=Part(f"I add {len(numbers)} of {source.name}."),
        after_commit=sent.after_commit,
    )


def _chosen_operations(source: Source) -> list[str]:
    there = documents.list_operations(source)
    return [there[at].operation for at in source.options.get("chosen", ()) if at < len(there)]


async def _parse_payload(context: ActionContext, payload: str) -> tuple[Source | None, int]:
    """The document and the number a button names."""
    sealed, _, number = payload.partition(":")
    if not number.isdecimal() or len(number) > 4:
        return None, 0
    found = [
        one
        for one in await sources.list_all(context.tx)
        if one.kind == "openapi" and hash_name(one.name) == sealed
    ]
    return (found[0] if found else None), int(number)
