"""Parses what admins set of a tool: its rule (never, once or always, who answers, for which arguments), and
whether it delivers files. Pure.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from bot.errors import ChangeRefused
from bot.tool_registry.tool_info import ONLY_READS
from bot.translations.translator import translatable
from tools.base import ApprovalMode, Rule, RuleApprover
from tools.schemas.signature import ToolDefinitionError

RULE_HELP = translatable(
    "A rule is never, once or always; then, if it asks, who answers (asker or admins), and for which "
    'arguments: always admins when {"properties": {"city": {"const": "Rome"}}}. Or it is reads: the tool '
    "changes nothing, and never asks. Or default: as the tool itself says. A source is trusted if "
    "strangers can't write what it returns, or untrusted."
)
DELIVERY_HELP = translatable(
    "Say on or off: with /tools deliver NAME on, people get the pictures and files that a tool returns."
)
_DELIVERY_WORDS = {"on": True, "off": False}
_ASK_MODES: Mapping[str, ApprovalMode] = {mode: mode for mode in get_args(ApprovalMode)}
_APPROVERS: Mapping[str, RuleApprover] = {approver: approver for approver in get_args(RuleApprover)}
_RULE = re.compile(
    rf"(?P<ask>{'|'.join(_ASK_MODES)})(?:\s+(?P<who>{'|'.join(_APPROVERS)}))?"
    r"(?:\s+when\s+(?P<when>\{.*\}))?",
    re.DOTALL | re.IGNORECASE,
)


def parse_rule(text: str) -> Rule | None:
    """Parse a rule; None for `default`: what the tool itself says. Raises ChangeRefused."""
    word = text.strip().lower()
    if word == "default":
        return None
    if word == "reads":
        return ONLY_READS
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ChangeRefused(RULE_HELP)
    when = None
    if match["when"] is not None:
        when = _parse_schema(match["when"])
    approver = match["who"] or "asker"
    return Rule(_ASK_MODES[match["ask"].lower()], when, _APPROVERS[approver.lower()])


def parse_delivery(text: str) -> bool:
    """Parse whether a tool delivers: on or off. Raises ChangeRefused."""
    word = text.strip().lower()
    if word not in _DELIVERY_WORDS:
        raise ChangeRefused(DELIVERY_HELP)
    return _DELIVERY_WORDS[word]


def _parse_schema(text: str) -> dict[str, Any]:
    # Late, for hardly any rule is about arguments.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    from bot.agent.rule_conditions import has_limit_in_negation
    from tools.schemas.resolve import resolve_schema

    try:
        schema: dict[str, Any] = json.loads(text)
        Draft202012Validator.check_schema(schema)
        unchecked = resolve_schema(schema).warnings
    except ToolDefinitionError as error:
        raise ChangeRefused("What follows `when` can't be used: {error}.", error=error) from None
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(
            "What follows `when` isn't valid JSON: {error}.", error=str(error)[:100]
        ) from None
    except SchemaError as error:
        raise ChangeRefused(
            "What follows `when` isn't a valid JSON Schema: {error}.", error=error.message[:200]
        ) from None
    if unchecked:
        raise ChangeRefused("What follows `when` can't be used: {error}.", error=unchecked[0])
    if has_limit_in_negation(schema):
        raise ChangeRefused(
            "A number limit under `not` or `if` would let through what isn't a number. Say which calls ask "
            'instead: {"exclusiveMinimum": 100} rather than {"not": {"maximum": 100}}.'
        )
    return schema
