"""Reads a rule as admins write it: never, once or always, who answers, and for which arguments. Pure."""

import json
import re
from typing import Any, Literal, get_args

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from bot.errors import ChangeRefused
from tools.base import Rule
from tools.schemas.signature import ToolDefinitionError

AskMode = Literal["never", "once", "always"]
Approver = Literal["asker", "admins"]

RULE_HELP = (
    "A rule is never, once or always; then, if it shall ask, who answers (asker or admins), and for which arguments: "
    'always admins when {"properties": {"city": {"const": "Rome"}}}'
)
_RULE = re.compile(
    rf"(?P<ask>{'|'.join(get_args(AskMode))})(?:\s+(?P<who>{'|'.join(get_args(Approver))}))?(?:\s+when\s+(?P<when>\{{.*\}}))?",
    re.DOTALL | re.IGNORECASE,
)


def parse_rule(text: str) -> Rule | None:
    """The rule that is meant; None for `default`: what the tool itself says. Raises ChangeRefused."""
    if text.strip().lower() == "default":
        return None
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ChangeRefused(RULE_HELP)
    ask = found["ask"].lower()
    who = (found["who"] or "asker").lower()
    when = None if found["when"] is None else _parse_schema(found["when"])
    return Rule(
        next(one for one in get_args(AskMode) if one == ask),
        when,
        next(one for one in get_args(Approver) if one == who),
    )


def _parse_schema(text: str) -> dict[str, Any]:
    from tools.schemas.resolve import resolve_schema  # hardly any rule is about arguments

    try:
        schema: dict[str, Any] = json.loads(text)
        Draft202012Validator.check_schema(schema)
        unchecked = resolve_schema(schema).warnings
    except ToolDefinitionError as error:
        raise ChangeRefused(f"What stands behind `when` cannot be used: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise ChangeRefused(f"What stands behind `when` is no JSON: {str(error)[:100]}.") from None
    except SchemaError as error:
        raise ChangeRefused(f"What stands behind `when` is no JSON Schema: {error.message[:200]}.") from None
    if unchecked:
        raise ChangeRefused(f"What stands behind `when` cannot be used: {unchecked[0]}.")
    return schema
