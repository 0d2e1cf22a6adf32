"""Decides whether the arguments of a call are those that a rule is about. Pure.

A rule's condition is JSON Schema, but a value may come in another type than the rule names: a tool may take
`number or text`, and an endpoint without a schema writes every value as text. Many services trim texts and
fold case. A condition that a value may meet counts as met, so that the person is asked.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry

NUMBER_LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})

Errors = Iterable[object]
Keyword = Callable[[Any, Any, Any, Any], Errors]

_KEYWORDS: Mapping[str, Keyword] = Draft202012Validator.VALIDATORS
_BOOLEAN_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "0", "1"))
_NULL_WORDS = frozenset(("", "null", "none"))


def is_met(condition: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether arguments may be what the condition describes; where that cannot be decided, they are."""
    try:
        # With a registry of its own it fetches nothing, whatever the schema refers to.
        return any(
            validator(condition, registry=Registry()).is_valid(dict(arguments))
            for validator in (_TypedValidator, _LenientValidator)
        )
    except Exception:  # noqa: BLE001 a schema that an admin wrote may be anything; asking is safe
        return True


def has_limit_in_negation(condition: object) -> bool:
    """Whether a limit of numbers stands under `not` or `if`.

    A value that cannot be compared with it would meet the limit, and so not the condition.
    """
    if isinstance(condition, list):
        return any(map(has_limit_in_negation, condition))
    if not isinstance(condition, Mapping):
        return False
    negated = [condition.get("not"), condition.get("if")]
    return any(map(_has_limit, negated)) or any(map(has_limit_in_negation, condition.values()))


def has_items(condition: object) -> bool:
    """Whether a condition is about all entries of a list, as `items` is."""
    if isinstance(condition, list):
        return any(map(has_items, condition))
    if not isinstance(condition, Mapping):
        return False
    schemas = [schema for key, schema in condition.items() if key != "properties"]
    return "items" in condition or has_items([*schemas, *condition.get("properties", {}).values()])


def _has_limit(schema: object) -> bool:
    if isinstance(schema, list):
        return any(map(_has_limit, schema))
    if not isinstance(schema, Mapping):
        return False
    return bool(NUMBER_LIMITS & set(schema)) or any(map(_has_limit, schema.values()))


def _compare_number(keyword: Keyword) -> Keyword:
    """The keyword applied to numbers in texts, too; a text that is no number may be within any limit."""

    def compare(validator: Any, limit: Any, instance: Any, schema: Any) -> Errors:
        if isinstance(instance, str):
            number = _read_number(instance)
            if number is None:
                return ()
            instance = number
        return keyword(validator, limit, instance, schema) or ()

    return compare


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if number != number:  # NaN is neither above nor below anything
        return None
    return number


def _match_type(validator: Any, types: Any, instance: Any, schema: Any) -> Errors:
    names = [types] if isinstance(types, str) else types
    if any(_may_have_type(instance, name) for name in names):
        return ()
    return _KEYWORDS["type"](validator, types, instance, schema)


def _may_have_type(instance: object, name: str) -> bool:
    """Whether a value may be meant as one of this type."""
    if not isinstance(instance, str):
        return name == "string" and isinstance(instance, bool | int | float)
    text = instance.strip().lower()
    match name:
        case "boolean":
            return text in _BOOLEAN_WORDS
        case "null":
            return text in _NULL_WORDS
        case "object":
            return text.startswith("{")
        case "array":
            return text.startswith("[")
    return True


def _match_reading(keyword: Keyword) -> Keyword:
    """The keyword met by a value as it is, or by what it reads as."""

    def match(validator: Any, expected: Any, instance: Any, schema: Any) -> Errors:
        readings = _list_readings(_fold(instance))
        errors = [list(keyword(validator, _fold(expected), value, schema)) for value in readings]
        return min(errors, key=len)

    return match


def _match_pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Errors:
    folded = _fold(instance)
    if isinstance(folded, str) and re.search(pattern, folded, re.IGNORECASE):
        return ()
    return _KEYWORDS["pattern"](validator, pattern, instance, schema)


def _fold(value: Any) -> Any:
    """A value whose texts have no case, no width, no blanks around them and nothing invisible in them."""
    if isinstance(value, list):
        return [_fold(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _fold(entry) for key, entry in value.items()}
    if not isinstance(value, str):
        return value
    chars = unicodedata.normalize("NFKC", value)
    visible = "".join(char for char in chars if unicodedata.category(char) not in {"Cc", "Cf"})
    return visible.strip().casefold()


def _list_readings(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, str):
        try:
            yield json.loads(value)
        except (ValueError, RecursionError):
            return
    elif isinstance(value, bool | int | float):
        yield json.dumps(value)


def _ignore(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    return ()


def _negate(validator: Any, negated: Any, instance: Any, schema: Any) -> Errors:
    if _has_limit(negated):
        return ()
    return _KEYWORDS["not"](validator, negated, instance, schema)


def _extend(base: type[Validator], keywords: Mapping[str, Keyword]) -> type[Validator]:
    extended: type[Validator] = extend(base, keywords)  # type: ignore[no-untyped-call]
    return extended


# Values in the types they came in, but numbers in texts are compared.
_TypedValidator = _extend(
    Draft202012Validator,
    {"not": _negate, **{name: _compare_number(_KEYWORDS[name]) for name in NUMBER_LIMITS}},
)
# Values in any type they may be meant as. Under `not` that would let more pass, hence both.
_LenientValidator = _extend(
    _TypedValidator,
    {
        "type": _match_type,
        "const": _match_reading(_KEYWORDS["const"]),
        "enum": _match_reading(_KEYWORDS["enum"]),
        "pattern": _match_pattern,
        "oneOf": _KEYWORDS["anyOf"],
        "if": _ignore,
    },
)
