"""Samples valid arguments for a schema, and writes them as the endpoint does for a model. Pure."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from bot.sim.gemma.arguments import parse_arguments
from bot.sim.vllm.script import format_arguments
from tools.schemas.choices import infer_type
from tools.schemas.kinds import list_allowed_values
from tools.schemas.options import CLOSED, expand_nullable, find_type, list_options

MAX_LEVELS = 6  # of what is optional
TRIES = 12  # to find a sample that fits
TEXTS = (
    *("lorem", "A few words.", "id-7f3a", "2026-11-20", "2026-11-20T10:30:00Z", "10:30:00Z", "P1D"),
    *("someone@example.com", "https://example.com/a?b=c", "d9428888-122b-11e1-b85c-61cd3cbb3210", "#ff8800"),
    *("192.0.2.7", "2001:db8::1", "bG9yZW0=", "ABCDEF", "abcdefabcdefabcdefabcdefabcdefab", "+15558675310"),
    *("a", "ab", "XY", "USD", "en-US", "AC" + "0" * 32, "0", "12345", "1.5", "on", "007", "t3_ab"),
)
FORMATS: Mapping[str, str] = {
    "date": "2026-11-20",
    "date-time": "2026-11-20T10:30:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/a?b=c",
    "uuid": "d9428888-122b-11e1-b85c-61cd3cbb3210",
}


class CallSampler:
    """Samples calls; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sample(self, checked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Arguments that fit this schema; None if none were found."""
        validator = Draft202012Validator(expand_nullable(checked))
        for _ in range(TRIES):
            arguments = self._sample_value(checked, 0)
            if isinstance(arguments, dict) and validator.is_valid(arguments):
                return arguments
        return None

    def _sample_value(self, schema: Mapping[str, Any], level: int) -> Any:
        if schema.get("nullable") is True and self._random.random() < 0.05:
            return None
        options = list_options(schema)
        if options:
            typed = [option for option in options if find_type(option)] or options
            return _prefer_value(self._sample_value(self._random.choice(typed), level), typed)
        values = list_allowed_values(schema)
        if values:
            return self._random.choice(values)
        kind = infer_type(schema)
        if not set(schema) & {"type", "properties", "items", "format", "pattern", "x-pattern", "minimum"}:
            return self._sample_anything(level)
        return self._sample_typed(kind, schema, level)

    def _sample_typed(self, kind: str, schema: Mapping[str, Any], level: int) -> Any:
        match kind:
            case "object":
                return self._sample_object(schema, level)
            case "array":
                return self._sample_list(schema, level)
            case "integer" | "number":
                return self._sample_number(schema)
            case "boolean":
                return self._random.random() < 0.5
        return self._sample_text(schema)

    def _sample_object(self, schema: Mapping[str, Any], level: int) -> dict[str, Any]:
        required = schema.get("required", ())
        chance = 0.5 if level < 2 else 0.2
        sample = {}
        for name, inner in schema.get("properties", {}).items():
            is_wanted = name in required or (level < MAX_LEVELS and self._random.random() < chance)
            if is_wanted and inner != CLOSED:
                sample[name] = self._sample_value(inner, level + 1)
        values = schema.get("additionalProperties")
        is_map = values is not None and values is not False and values != CLOSED
        if is_map and not schema.get("properties") and level < MAX_LEVELS:
            inner = values if isinstance(values, Mapping) else {}
            for name in ("alpha", "beta"):
                sample[name] = self._sample_value(inner, level + 1)
        return sample

    def _sample_list(self, schema: Mapping[str, Any], level: int) -> list[Any]:
        lowest = int(schema.get("minItems", 0))
        count = max(lowest, min(self._random.randint(0, 2), int(schema.get("maxItems", 2))))
        items = schema.get("items", {})
        if not isinstance(items, Mapping) or count > 20:
            return []
        if level >= MAX_LEVELS:
            count = lowest
        return [self._sample_value(items, level + 1) for _ in range(count)]

    def _sample_number(self, schema: Mapping[str, Any]) -> float:
        lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        highest = schema.get("maximum", schema.get("exclusiveMaximum", lowest + 1000))
        step = schema.get("multipleOf", 1)
        number = self._random.choice([lowest, lowest + step, highest, (lowest + highest) / 2])
        if infer_type(schema) == "integer" or self._random.random() < 0.5:
            return int(number)
        return float(number)

    def _sample_text(self, schema: Mapping[str, Any]) -> str:
        for hint in ("x-example", "x-default"):
            if isinstance(schema.get(hint), str) and self._random.random() < 0.5:
                return str(schema[hint]).strip("\"'")  # as YAML is quoted, and no value is meant to be
        text = FORMATS.get(schema.get("format", "")) or self._random.choice(TEXTS)
        if len(text) < schema.get("minLength", 0):
            text = text.ljust(int(schema["minLength"]), "x")
        return text[: int(schema.get("maxLength", 1000))]

    def _sample_anything(self, level: int) -> Any:
        pieces = ["lorem", "A few words.", 5, 2.5, True, False, "on", "+15558675310"]
        if level < MAX_LEVELS and self._random.random() < 0.3:
            return {"alpha": self._random.choice(pieces), "beta": [self._random.choice(pieces)]}
        return self._random.choice(pieces)


def _prefer_value(sample: Any, options: Sequence[Mapping[str, Any]]) -> Any:
    """The number or truth value that a text spells, where the choice takes it, too.

    What the endpoint's parser writes is the same for both.
    """
    if not isinstance(sample, str):
        return sample
    try:
        value = json.loads(sample)
    except ValueError:
        return sample
    if any(Draft202012Validator(expand_nullable(option)).is_valid(value) for option in options):
        return value
    return sample


def write_as_endpoint(arguments: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the endpoint's parser writes them: typed where the told schema is, else as texts."""
    return dict(parse_arguments(format_arguments(arguments), told))
