"""/grant and /revoke: who may use a tool, or all tools of a source."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.chat.commands.tool_text import begin_admin_action, load_person_names
from bot.tool_registry import formatting
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.grants import GRANTEE_HELP, Grantee, grant_tool, resolve_grantee, revoke_grant
from bot.tool_registry.source_actions import change_tools
from bot.tool_registry.tool_info import ToolInfo
from bot.translations.translator import Translator, translatable

HOW_TO = translatable(
    "Use /grant NAME WHOM or /revoke NAME WHOM. NAME is a tool, or a source for all its tools. WHOM is "
    "{people}; “chat” alone means this chat."
)


async def handle_grant(context: ActionContext) -> ActionResult:
    """/grant TOOL WHOM."""
    return await _change_grant(context, grant_tool, formatting.format_grant_hint)


async def handle_revoke(context: ActionContext) -> ActionResult:
    """/revoke TOOL WHOM."""
    return await _change_grant(context, revoke_grant)


async def _change_grant(
    context: ActionContext,
    change: Callable[[AdminAction, str, Grantee], Awaitable[ToolInfo]],
    format_hint: Callable[[Translator, Iterable[ToolInfo]], str] = lambda _, __: "",
) -> ActionResult:
    translate = context.translate
    name, _, whom = " ".join(context.args.split()).partition(" ")
    if not whom:
        return reply_text(translate(HOW_TO, people=translate(GRANTEE_HELP)))
    action = await begin_admin_action(context)
    grantee = await resolve_grantee(context.tx, whom, context.lane.chat)
    changed = await change_tools(action, name, lambda tool_name: change(action, tool_name, grantee))
    lookup_name = await load_person_names(context)

    def format_effect(info: ToolInfo) -> str:
        people = formatting.format_grantees(translate, info, lookup_name)
        text = translate("may be used by: {people}", people=people)
        return f" {text}"

    text = formatting.format_changed_tools(translate, name, changed, format_effect)
    return replace(reply_text(f"{text}{format_hint(translate, changed.changed)}"), changes_tools=True)
