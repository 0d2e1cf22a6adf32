"""/tools for admins: its subcommands, and what each changes about a tool.

What uses the network or runs a tool is left to `tool_tasks`: nothing here waits for anything.
"""

from dataclasses import replace
from functools import partial

from bot.chat.actions import ActionContext, ActionResult, SubAction, build_pages, reply_text
from bot.chat.commands import tool_cards
from bot.chat.commands.operation_picker import build_operation_page
from bot.chat.commands.tool_tasks import queue_tool_task
from bot.chat.commands.tool_text import begin_admin_action, build_parts, load_person_names
from bot.db.tools import call_log, sources
from bot.tool_registry import admin_actions, formatting, tool_settings
from bot.tool_registry.source_info import format_source, load_source_info
from bot.tool_registry.time_limits import format_time_limits, parse_time_limits, set_time_limits
from bot.tool_registry.tool_info import load_tool_info
from bot.translations.translator import translatable

MAX_LOGGED_CALLS = 20
_SWITCHED_SOURCE = {
    True: translatable("{name} is on with all its tools."),
    False: translatable("{name} is off with all its tools."),
}
HOW_TO = translatable("""\
/tools lists them, with buttons.
/tools add URL NAME – the tools of an OpenAPI document; then you pick some, by buttons or /tools pick NAME 1 3
/tools add mcp URL NAME – those of an MCP server
/tools add endpoint NAME METHOD URL, in the next lines what it does and its parameters
/tools configure NAME --query 'api_key={KEY}' – how it is reached: secrets by name, --set, --base-url
/tools signin NAME – sign in to an MCP server, for the first time or again
/tools show, enable, disable, remove or accept NAME, a tool or a source
/tools show NAME checked – which arguments are refused, beyond what the model is told
/tools try NAME {"city": "Rome"} – run it once
/tools rule NAME never, once or always [asker or admins] [when {…}]
/tools rule NAME reads – it changes nothing: I don't ask, even after reading a page
/tools rule SOURCE trusted – I don't ask because of its results; untrusted ends that
/tools reduce NAME results[:6].{title: title, url: url} – what the model reads of a result, as JMESPath
/tools deliver NAME on or off – whether the pictures and files that it returns are sent
/tools timeout SOURCE 120 – seconds that a call may take
/tools log [NAME] – the last calls
/tools reload – read all sources again
/grant NAME everyone, @name, a number or chat; /revoke undoes that; NAME is a tool or a source
Enter programs, files and secrets on the server: canvasgram tools --help""")


async def handle_tools(context: ActionContext) -> ActionResult:
    """/tools, and what may follow it."""
    verb, args = _split_first_word(context.args)
    if not verb:
        return ActionResult(parts=(await tool_cards.build_tool_page(context, 0),))
    verb = verb.lower()
    subcommand = _SUBCOMMANDS.get(verb)
    if subcommand is None or not (args or verb in _BARE_SUBCOMMANDS):
        return reply_text(context.translate(HOW_TO))
    result = await subcommand(context, args)
    return replace(result, changes_tools=verb in _CHANGING_SUBCOMMANDS)


async def _show_tool(context: ActionContext, args: str) -> ActionResult:
    """Show a source, or a tool as the model is told of it; followed by `checked`, with what is checked."""
    name, word = _split_first_word(args)
    source = await sources.find(context.tx, name)
    if source is not None and source.kind != "endpoint":
        source_info = await load_source_info(
            context.tx, context.deps.tools.builtin, source, context.deps.tools.program_homes
        )
        parts = build_parts(list(format_source(context.translate, source_info)))
        if source.kind == "openapi":
            parts += (build_operation_page(context.translate, source, 0),)
        return ActionResult(parts=parts)
    tool = await load_tool_info(context.tx, context.deps.tools.builtin, name)
    lookup_name = await load_person_names(context)
    show_checked = word.lower() == "checked"
    lines = list(formatting.format_tool(context.translate, tool, lookup_name, show_checked=show_checked))
    buttons = tool_cards.build_card_buttons(context.translate, tool)
    return ActionResult(parts=build_parts(lines, buttons))


async def _set_enabled(context: ActionContext, name: str, *, enabled: bool) -> ActionResult:
    changed = await admin_actions.set_enabled(await begin_admin_action(context), name, enabled=enabled)
    text = tool_cards.SWITCHED[enabled]
    if changed == "source":
        text = _SWITCHED_SOURCE[enabled]
    return reply_text(context.translate(text, name=name))


async def _ask_removal(context: ActionContext, name: str) -> ActionResult:
    """Ask first: only a tap on the question removes."""
    return ActionResult(parts=(await tool_cards.build_removal_question(context, name),))


async def _ask_acceptance(context: ActionContext, name: str) -> ActionResult:
    if await admin_actions.is_source(await begin_admin_action(context), name):
        return ActionResult(parts=await tool_cards.build_source_acceptance_parts(context, name))
    return ActionResult(parts=await tool_cards.build_acceptance_parts(context, name))


async def _set_rule(context: ActionContext, args: str) -> ActionResult:
    name, rule_text = _split_first_word(args)
    action = await begin_admin_action(context)
    return reply_text(await tool_settings.set_rule(action, context.translate, name, rule_text))


async def _set_reduction(context: ActionContext, args: str) -> ActionResult:
    name, expression = _split_first_word(args)
    action = await begin_admin_action(context)
    return reply_text(await tool_settings.set_reduction(action, context.translate, name, expression))


async def _set_delivery(context: ActionContext, args: str) -> ActionResult:
    name, word = _split_first_word(args)
    action = await begin_admin_action(context)
    return reply_text(await tool_settings.set_delivery(action, context.translate, name, word))


async def _set_timeout(context: ActionContext, args: str) -> ActionResult:
    name, limits_text = _split_first_word(args)
    source = await set_time_limits(await begin_admin_action(context), name, parse_time_limits(limits_text))
    return reply_text(f"{source.name}: {format_time_limits(context.translate, source)}.")


async def _show_log(context: ActionContext, tool_name: str) -> ActionResult:
    """List the last calls, or those of one tool, the newest first."""
    calls = await call_log.list_newest(context.tx, name=tool_name or None, limit=MAX_LOGGED_CALLS)
    if not calls:
        return reply_text(formatting.format_no_calls(context.translate, tool_name))
    name_lookup = await load_person_names(context)
    entries = [(formatting.format_call(context.translate, call, name_lookup), ()) for call in calls]
    heading = context.translate("The last calls, the newest first:")
    return ActionResult(parts=build_pages(heading, entries, buttons_per_row=1))


def _split_first_word(text: str) -> tuple[str, str]:
    """Return the first word, and what follows it with its line breaks."""
    first, rest, *_ = [*text.split(maxsplit=1), "", ""]
    return first, rest


_CHANGING_SUBCOMMANDS = {"enable", "disable", "rule", "reduce", "deliver", "timeout"}
_BARE_SUBCOMMANDS = {"log", "reload"}
_SUBCOMMANDS: dict[str, SubAction] = {
    "show": _show_tool,
    "enable": partial(_set_enabled, enabled=True),
    "disable": partial(_set_enabled, enabled=False),
    "remove": _ask_removal,
    "accept": _ask_acceptance,
    "rule": _set_rule,
    "reduce": _set_reduction,
    "deliver": _set_delivery,
    "timeout": _set_timeout,
    "log": _show_log,
    "add": partial(queue_tool_task, act="add"),
    "pick": partial(queue_tool_task, act="pick"),
    "configure": partial(queue_tool_task, act="configure"),
    "signin": partial(queue_tool_task, act="signin"),
    "try": partial(queue_tool_task, act="try"),
    "reload": partial(queue_tool_task, act="reload"),
}
