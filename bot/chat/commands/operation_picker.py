"""The list of a document's operations, each with a button that ticks it; what is ticked is added together.

Ticks are stored with the source. A host other than the document's own is confirmed before it is called.
"""

from collections.abc import Sequence

from bot.chat.actions import ActionContext, ActionResult, ButtonExpired, build_part, build_rows
from bot.chat.commands.tool_tasks import write_tool_task
from bot.chat.commands.tool_text import begin_admin_action, find_source, hash_name, truncate_text
from bot.db.tools.sources import Source
from bot.domain import Button, Part
from bot.tool_registry import add_source, openapi_sources
from bot.tool_registry.operation_search import DocumentOperation
from bot.translations.formats import format_list
from bot.translations.translator import Translator
from bot.usage.plain_text import escape_for_terminal

OPERATIONS_PER_PAGE = 10
BUTTONS_PER_ROW = 5
MAX_SUMMARY_CHARS = 80  # of an operation's own description


def build_operation_page(translate: Translator, source: Source, page: int) -> Part:
    """Build a page of the operations: a line for each, with its number as a button."""
    operations = openapi_sources.list_operations(source)
    words = source.options.get("search", "")
    shown = _list_shown(source)
    page = max(0, min(page, (len(shown) - 1) // OPERATIONS_PER_PAGE))
    start = page * OPERATIONS_PER_PAGE
    chosen = set(source.options.get("chosen", ()))
    registered = openapi_sources.list_registered_operations(source)
    name_hash = hash_name(source.name)
    lines = [_format_heading(translate, source, len(operations), len(shown))]
    ticks = []
    for index in shown[start : start + OPERATIONS_PER_PAGE]:
        operation = operations[index]
        is_added = operation.operation in registered
        lines.append(f"{index + 1}. {_format_operation(translate, operation, is_added=is_added)}")
        if not is_added:
            label = f"✓ {index + 1}" if index in chosen else f"{index + 1}"
            ticks.append(Button(label, f"tools:tick:{name_hash}:{index}"))
    last_row = []
    if page:
        last_row.append(Button("◀", f"tools:list:{name_hash}:{page - 1}"))
    if start + OPERATIONS_PER_PAGE < len(shown):
        last_row.append(Button("▶", f"tools:list:{name_hash}:{page + 1}"))
    if words:
        last_row.append(Button(translate("All"), f"tools:every:{name_hash}"))
    if chosen:
        last_row.append(Button(translate("Add {count}", count=len(chosen)), f"tools:make:{name_hash}"))
    rows = build_rows(ticks, BUTTONS_PER_ROW)
    if last_row:
        rows += (tuple(last_row),)
    return build_part(truncate_text("\n".join(lines)), *rows)


def _list_shown(source: Source) -> Sequence[int]:
    """The operations by their index: all, or those that match the words of the search."""
    if words := source.options.get("search"):
        return openapi_sources.search(source, words)
    return range(len(openapi_sources.list_operations(source)))


def _format_heading(translate: Translator, source: Source, count: int, found: int) -> str:
    name = escape_for_terminal(source.name)
    words = source.options.get("search", "")
    if words:
        return translate(
            "{name}: {found} of {count} operations match {words}. Which ones?",
            name=name,
            found=found,
            count=count,
            words=repr(escape_for_terminal(words[:60])),
        )
    return translate(
        "{name}: which of these {count} operations? Or write /tools pick {name} 1 3; with words, /tools "
        "pick {name} searches.",
        name=name,
        count=count,
    )


def _format_operation(translate: Translator, operation: DocumentOperation, *, is_added: bool) -> str:
    line = f"{escape_for_terminal(operation.name)} · {operation.method} {escape_for_terminal(operation.path)}"
    if operation.summary:
        line += f" – {escape_for_terminal(operation.summary[:MAX_SUMMARY_CHARS])}"
    if is_added:
        mark = translate("added")
        line += f" · {mark}"
    return line


async def show_page(context: ActionContext, payload: str) -> ActionResult:
    """Show another page of the list."""
    source, number = await _parse_payload(context, payload)
    return ActionResult(replacement=build_operation_page(context.translate, source, number))


async def toggle_operation(context: ActionContext, payload: str) -> ActionResult:
    """Tick an operation, or remove its tick."""
    source, index = await _parse_payload(context, payload)
    if index >= len(openapi_sources.list_operations(source)):
        raise ButtonExpired
    changed = await add_source.toggle_operation(await begin_admin_action(context), source.name, index)
    shown = _list_shown(changed)
    place = shown.index(index) if index in shown else 0
    page = place // OPERATIONS_PER_PAGE
    return ActionResult(replacement=build_operation_page(context.translate, changed, page))


async def show_all(context: ActionContext, payload: str) -> ActionResult:
    """Show all operations again, after a search."""
    source = await _find_source(context, payload)
    widened = await add_source.narrow_list(await begin_admin_action(context), source.name, "")
    return ActionResult(replacement=build_operation_page(context.translate, widened, 0))


async def add_chosen(context: ActionContext, payload: str) -> ActionResult:
    """Add what is ticked; hosts that nobody has confirmed are asked about first."""
    source = await _find_source(context, payload)
    chosen = _list_chosen(source)
    hosts = openapi_sources.find_unconfirmed_hosts(source, chosen)
    if hosts:
        return ActionResult(replacement=_build_hosts_question(context.translate, source, hosts))
    return await _queue_pick(context, source, chosen)


async def confirm_hosts(context: ActionContext, payload: str) -> ActionResult:
    """Confirm the hosts that were shown and add what is ticked; ask again if the hosts have changed since."""
    name_hash, _, hosts_hash = payload.partition(":")
    source = await _find_source(context, name_hash)
    chosen = _list_chosen(source)
    hosts = openapi_sources.find_unconfirmed_hosts(source, chosen)
    if hosts and hash_name(" ".join(hosts)) != hosts_hash:
        return ActionResult(replacement=_build_hosts_question(context.translate, source, hosts))
    await add_source.confirm_hosts(await begin_admin_action(context), source.name, hosts)
    return await _queue_pick(context, source, chosen)


def _build_hosts_question(translate: Translator, source: Source, hosts: Sequence[str]) -> Part:
    """Ask whether calls may go to these hosts; the button confirms only them."""
    names = format_list(translate, [escape_for_terminal(host) for host in hosts])
    question = translate(
        "{source} is at {address}, but these calls would go to {hosts}. Allow that?",
        source=escape_for_terminal(source.name),
        address=escape_for_terminal(source.address),
        hosts=names,
    )
    name_hash = hash_name(source.name)
    confirm = Button(translate("Allow that"), f"tools:host:{name_hash}:{hash_name(' '.join(hosts))}")
    back = Button(translate("No"), f"tools:list:{name_hash}:0")
    return build_part(truncate_text(question), (confirm, back))


async def _queue_pick(context: ActionContext, source: Source, chosen: Sequence[str]) -> ActionResult:
    names = [operation.operation for operation in openapi_sources.list_operations(source)]
    numbers = [str(names.index(name) + 1) for name in chosen]
    await write_tool_task(context, "pick", words=" ".join([source.name, *numbers]))
    return ActionResult(
        toast=context.translate("I'm adding them."),
        replacement=Part(
            context.translate("I'm adding {count} of {source}.", count=len(numbers), source=source.name)
        ),
    )


def _list_chosen(source: Source) -> list[str]:
    """The operations that are ticked. Raises ButtonExpired if none is."""
    operations = openapi_sources.list_operations(source)
    indexes = source.options.get("chosen", ())
    chosen = [operations[index].operation for index in indexes if index < len(operations)]
    if not chosen:
        raise ButtonExpired
    return chosen


async def _parse_payload(context: ActionContext, payload: str) -> tuple[Source, int]:
    """Return the document and the number that a button names. Raises ButtonExpired."""
    name_hash, _, number = payload.partition(":")
    if not number.isdecimal() or len(number) > 4:
        raise ButtonExpired
    return await _find_source(context, name_hash), int(number)


async def _find_source(context: ActionContext, name_hash: str) -> Source:
    """Return the document that a button names. Raises ButtonExpired."""
    source = await find_source(context, name_hash)
    if source.kind != "openapi":
        raise ButtonExpired
    return source
