"""Checks JMESPath expressions, and applies one to the JSON of a result. Pure.

`reduce_json` runs in the sandbox: a short expression can multiply what it is given without end.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_EXPRESSION_CHARS = 1000
_BLANKS = re.compile(r"[ \t\r\n]*")


class ReductionRefused(ValueError):
    """This is no expression that can be kept; the text says why, for an admin."""


class ResultMismatch(ValueError):
    """The expression does not fit the result; the text says why, for the model."""


def check_expression(expression: str) -> None:
    """Refuse what is too long, no JMESPath, or names an unknown function. Raises ReductionRefused."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise ReductionRefused(f"it has more than {MAX_EXPRESSION_CHARS:,} characters")
    from jmespath.functions import Functions

    unknown = sorted(set(_list_functions(_parse(expression))) - set(Functions.FUNCTION_TABLE))
    if unknown:
        raise ReductionRefused(f"there is no function {unknown[0][:60]}()")


def reduce_json(body: bytes, expression: str) -> dict[str, str]:
    """What the expression finds in a text of JSON values, as `text`; or why it does not fit, as `problem`."""
    try:
        return {"text": _reduce(body.decode(), expression)}
    except ResultMismatch as mismatch:
        return {"problem": str(mismatch)}


def _parse(expression: str) -> Mapping[str, Any]:
    """The syntax tree. Raises ReductionRefused."""
    import jmespath
    from jmespath.exceptions import IncompleteExpressionError, JMESPathError, ParseError

    try:
        return jmespath.compile(expression).parsed
    except IncompleteExpressionError:
        raise ReductionRefused("it is not complete") from None
    except ParseError as error:
        raise ReductionRefused(
            f"{str(error.token_value)[:20]!r} does not fit at character {error.lex_position + 1}"
        ) from None
    except (JMESPathError, PendingDeprecationWarning):
        raise ReductionRefused("it is empty, or no JMESPath") from None
    except RecursionError:
        raise ReductionRefused("it is nested too deep") from None


def _list_functions(tree: Mapping[str, Any]) -> Iterator[str]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if node["type"] == "function_expression":
            yield node["value"]
        pending += (child for child in node["children"] if isinstance(child, dict))


def _reduce(text: str, expression: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError, JMESPathTypeError

    value, note = _decode(text)
    try:
        found = jmespath.search(expression, value)
    except JMESPathTypeError as error:  # its own text repeats the value
        raise ResultMismatch(f"{error.function_name}() is given {error.actual_type}") from None
    except (JMESPathError, ArithmeticError, TypeError, ValueError) as error:
        raise ResultMismatch(f"{error}"[:200]) from None
    except RecursionError:
        raise ResultMismatch("the result is nested too deep") from None
    if found is None:
        raise ResultMismatch("it finds nothing")
    if isinstance(found, str):
        return found + note
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) + note


def _decode(text: str) -> tuple[Any, str]:
    """The value of a text, or the list of its values, and the note in brackets that may follow them.

    Raises ResultMismatch.
    """
    values = []
    end = 0
    note = ""
    while (begin := _skip_blanks(text, end)) < len(text):
        try:
            value, value_end = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError):
            note = text[end:]
            break
        values.append(value)
        end = value_end
    if not values or (note and not note.startswith("\n\n[")):
        raise ResultMismatch("it is not JSON")
    return (values[0] if len(values) == 1 else values), note


def _skip_blanks(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return match.end() if match else start
