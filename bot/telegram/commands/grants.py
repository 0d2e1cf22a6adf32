"""/grant and /revoke: who may use a tool."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bot.errors import ChangeRefused
from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.commands.tool_names import build_admin_action, load_person_names
from bot.tool_registry import formatting as words
from bot.tool_registry import grant_actions as permitting
from bot.tool_registry import grantees as whom
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.grant_actions import Grantee
from bot.tool_registry.tool_info import ToolInfo

HOW_TO = f"Use /grant TOOL WHOM, and /revoke TOOL WHOM: {whom.GRANTEE_HELP}; chat alone is this one."


async def handle_grant(context: ActionContext) -> ActionResult:
    """/grant TOOL WHOM."""
    return await _change_grant(context, permitting.grant_tool, words.NEW_CONVERSATION_HINT)


async def handle_revoke(context: ActionContext) -> ActionResult:
    """/revoke TOOL WHOM."""
    return await _change_grant(context, permitting.revoke_grant)


async def _change_grant(
    context: ActionContext, change: Callable[[AdminAction, str, Grantee], Awaitable[ToolInfo]], note: str = ""
) -> ActionResult:
    tool, _, rest = " ".join(context.args.split()).partition(" ")
    if not rest:
        return reply_text(HOW_TO)
    try:
        after = await change(
            build_admin_action(context), tool, await whom.resolve_grantee(context.tx, rest, context.lane.chat)
        )
    except ChangeRefused as refused:
        return reply_text(str(refused))
    return replace(
        reply_text(
            f"{after.name} may be used by: {words.format_grantees(after, await load_person_names(context))}.{note}"
        ),
        changes_tools=True,
    )
