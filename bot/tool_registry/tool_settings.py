"""Sets what admins set of a tool, or of all tools of a source: its rule, its reduction, its delivery.

The same in chats, on the command line and on the page. Each function reads what the admin wrote, and returns
the lines that say what holds now. Raises ChangeRefused.
"""

from collections.abc import Callable

from bot.tool_registry import admin_actions, formatting
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.rule_parser import parse_delivery, parse_rule
from bot.tool_registry.source_actions import ToolChange, change_tools
from bot.tool_registry.tool_info import ToolInfo
from bot.translations.translator import Translator


async def set_rule(action: AdminAction, translate: Translator, name: str, text: str) -> str:
    """Set when calls ask first, as `parse_rule` reads it."""
    rule = parse_rule(text)
    return await _change_setting(
        action,
        translate,
        name,
        lambda tool_name: admin_actions.set_rule(action, tool_name, rule),
        formatting.format_effective_rule,
    )


async def set_reduction(action: AdminAction, translate: Translator, name: str, expression: str) -> str:
    """Set the JMESPath of what the model reads of results; `default`: all of them."""
    return await _change_setting(
        action,
        translate,
        name,
        lambda tool_name: admin_actions.set_reduction(action, tool_name, expression),
        formatting.format_reduction,
    )


async def set_delivery(action: AdminAction, translate: Translator, name: str, word: str) -> str:
    """Set whether people are sent the files that a service returns: on or off."""
    delivers = parse_delivery(word)
    return await _change_setting(
        action,
        translate,
        name,
        lambda tool_name: admin_actions.set_delivery(action, tool_name, delivers=delivers),
        formatting.format_delivery,
    )


async def _change_setting(
    action: AdminAction,
    translate: Translator,
    name: str,
    change: ToolChange,
    format_setting: Callable[[Translator, ToolInfo], str],
) -> str:
    changed = await change_tools(action, name, change)
    return formatting.format_changed_tools(
        translate, name, changed, lambda info: f": {format_setting(translate, info)}"
    )
