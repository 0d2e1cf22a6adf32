"""Sets what admins set of a tool, or of all tools of a source: its rule, its reduction, its delivery;
and whether a source is trusted.

The same in chats, on the command line and on the page. Each function reads what the admin wrote, and returns
the lines that say what holds now. Raises ChangeRefused.
"""

from collections.abc import Callable

from bot.db.tools import sources
from bot.tool_registry import admin_actions, formatting
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.rule_parser import parse_delivery, parse_rule
from bot.tool_registry.source_actions import ToolChange, change_tools
from bot.tool_registry.tool_info import ToolInfo
from bot.translations.translator import Translator

_TRUST_WORDS = {"trusted": True, "untrusted": False}


async def set_rule(action: AdminAction, translate: Translator, name: str, text: str) -> str:
    """Set when calls ask first, as `parse_rule` reads it; or whether the results of a source are trusted."""
    word = text.strip().lower()
    if word in _TRUST_WORDS:
        return await _set_trust(action, translate, name, is_trusted=_TRUST_WORDS[word])
    rule = parse_rule(text)
    changed = await _change_setting(
        action,
        translate,
        name,
        lambda tool_name: admin_actions.set_rule(action, tool_name, rule),
        formatting.format_effective_rule,
    )
    if rule is None or rule.when is None:
        return changed
    from bot.agent.rule_conditions import has_items  # it imports jsonschema

    if not has_items(rule.when):
        return changed
    return changed + "\n" + translate("“items” asks only if all entries fit; “contains” asks if one does.")


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


async def _set_trust(action: AdminAction, translate: Translator, name: str, *, is_trusted: bool) -> str:
    source = await admin_actions.get_source(action, name)
    changed = source.with_options(trusted=is_trusted)
    if is_trusted != source.is_trusted:
        await sources.put(action.tx, changed)
        before = {"trusted": source.is_trusted}
        await action.record_change("set trust", f"source {name}", before, {"trusted": is_trusted})
    return f"{name}: {formatting.format_trust(translate, changed)}."


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
