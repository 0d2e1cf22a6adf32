"""/tools for admins: what may follow it, and what each word changes about a tool.

What must go out into the network, or run a tool, is left to errands: nothing here waits for anything.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from bot.db.tools import call_log as called
from bot.db.tools import sources
from bot.errors import ChangeRefused
from bot.telegram.actions import ActionContext, ActionResult, build_pages, reply_text
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands import tool_cards as toolcards
from bot.telegram.commands import tool_tasks as errands
from bot.telegram.commands.long_text import build_parts
from bot.telegram.commands.tool_names import build_admin_action, load_person_names
from bot.tool_registry import admin_actions as registering
from bot.tool_registry import formatting as words
from bot.tool_registry import rule_parser as ruling
from bot.tool_registry.tool_info import load_tool_info

MAX_LOGGED_CALLS = 20  # of a log
HOW_TO = """\
/tools lists them, with buttons.
/tools add URL NAME – the tools of an OpenAPI document; then you pick some, by buttons or /tools pick NAME 1 3
/tools add mcp URL NAME – those of an MCP server
/tools add endpoint NAME METHOD URL, in the next lines what it does and its parameters
/tools show, enable, disable, remove or accept NAME
/tools try NAME {"city": "Rome"} – run it once
/tools rule NAME never, once or always [asker or admins] [when {…}]
/tools log [NAME] – the last calls
/tools reload – look at all sources anew
/grant NAME everyone, @name, a number or chat; /revoke takes it back
Programs, files and secrets are entered on the machine: canvasgram tools --help"""


async def handle_tools(context: ActionContext) -> ActionResult:
    """/tools, and what may follow it."""
    verb, rest = _split_first_word(context.args)
    if not verb:
        return ActionResult(parts=(await toolcards.build_tool_page(context, 0),))
    word = _SUBCOMMANDS.get(verb.lower())
    if word is None or not (rest or verb.lower() in _BARE_SUBCOMMANDS):
        return reply_text(HOW_TO)
    try:
        answer = await word(context, rest)
        return replace(answer, changes_tools=verb.lower() in _CHANGING_SUBCOMMANDS)
    except ChangeRefused as refused:
        return reply_text(str(refused))


async def _show_tool(context: ActionContext, name: str) -> ActionResult:
    source = await sources.find(context.tx, name)
    if source is not None and source.kind != "endpoint":
        lists = (picking.build_operation_page(source, 0),) if source.kind == "openapi" else ()
        return ActionResult(parts=(*build_parts(list(words.format_source(source))), *lists))
    found = await load_tool_info(context.tx, context.deps.builtin_tools, name)
    lines = list(words.format_tool(found, await load_person_names(context)))
    return ActionResult(parts=build_parts(lines, toolcards.build_card_buttons(found)))


async def _set_enabled(context: ActionContext, name: str, *, enabled: bool) -> ActionResult:
    what = await registering.set_enabled(build_admin_action(context), name, enabled=enabled)
    also = " with all its tools" if what == "source" else ""
    return reply_text(f"{name} is {'on' if enabled else 'off'}{also}.")


async def _ask_removal(context: ActionContext, name: str) -> ActionResult:
    """Ask first: the second tap removes."""
    return ActionResult(parts=(await toolcards.build_removal_question(context, name),))


async def _ask_acceptance(context: ActionContext, name: str) -> ActionResult:
    return ActionResult(parts=await toolcards.build_acceptance_parts(context, name))


async def _set_rule(context: ActionContext, args: str) -> ActionResult:
    name, rule = _split_first_word(args)
    after = await registering.set_rule(build_admin_action(context), name, ruling.parse_rule(rule))
    return reply_text(f"{after.name}: {words.format_effective_rule(after)}.")


async def _show_log(context: ActionContext, tool: str) -> ActionResult:
    """The last calls, or those of one tool, the newest first."""
    found = await called.list_newest(context.tx, name=tool or None, limit=MAX_LOGGED_CALLS)
    if not found:
        return reply_text(words.format_no_calls(tool))
    name = await load_person_names(context)
    entries = [(words.format_call(one, name), ()) for one in found]
    return ActionResult(parts=build_pages("The last calls, the newest first:", entries, buttons_per_row=1))


def _split_first_word(text: str) -> tuple[str, str]:
    """The first word, and what follows it."""
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


_CHANGING_SUBCOMMANDS = {"enable", "disable", "rule"}
_BARE_SUBCOMMANDS = {"log", "reload"}
_SUBCOMMANDS: dict[str, Callable[[ActionContext, str], Awaitable[ActionResult]]] = {
    "show": _show_tool,
    "enable": partial(_set_enabled, enabled=True),
    "disable": partial(_set_enabled, enabled=False),
    "remove": _ask_removal,
    "accept": _ask_acceptance,
    "rule": _set_rule,
    "log": _show_log,
    "add": partial(errands.queue_tool_task, do="add"),
    "pick": partial(errands.queue_tool_task, do="pick"),
    "try": partial(errands.queue_tool_task, do="try"),
    "reload": partial(errands.queue_tool_task, do="reload"),
}
