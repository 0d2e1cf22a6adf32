"""Derives what the model is told of arguments from the schema that they are checked against.

Pure and bounded. The model's template renders description, type, enum of strings, items, properties, required
and nullable; everything else that limits a value is put into words here, and what cannot be told is reported
to the admin. Derived each time a tool is made and no part of its hash, so that it can be improved without a
grant being lost.

What is too large is told in less detail: first descriptions become shorter, then choices, then what is inside
of optional arguments becomes names in words, then optional arguments do.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.safety.injection import neutralize
from tools.schemas.choices import flatten_choice, infer_type, list_enum_names
from tools.schemas.describe_limits import describe_choices, describe_limits, describe_names, describe_type

MAX_TOLD_CHARS = 4000  # some 1,000 tokens of every prompt
MAX_WARNINGS = 20
TOLD_IN_SHORT = (
    f"the schema takes more than {MAX_TOLD_CHARS} characters and is told in short: `tools show` prints it"
)
MAX_CHOICES = 60  # of one value that are told; those of a kind are in any detail
MIN_DESCRIPTION_CHARS = 40  # of a description that are kept however long the limits in words are
UNRENDERED_KEYWORDS = (
    "if",
    "not",
    "dependentSchemas",
    "dependentRequired",
    "patternProperties",
    "propertyNames",
)

Schema = dict[str, Any]

_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ToldSchema:
    """The schema that the model is told; `warnings` are what an admin should know it leaves out."""

    schema: Schema
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much is told of a schema.

    `required_words`, `optional_words` and `inner_words` are the characters of a description: of what is
    required, of an optional argument, and of what is inside of one.
    `choices` are those of one value that are told, `levels` how deep an optional argument is told.
    `optional_names` beside required ones, and `inner_names` inside of an optional argument, have a schema
    each; `plain_names` of the others stand in the words of their object.
    `required_levels` is how deep what is required is told.
    """

    required_words: int = 400
    optional_words: int = 400
    inner_words: int = 400
    choices: int = MAX_CHOICES
    levels: int = 5
    optional_names: int = 1000
    inner_names: int = 1000
    plain_names: int = 60
    required_levels: int = 30


# From much to least; each tells less than the one before.
_TERSE = _Detail(100, 0, 0, choices=12, levels=2, inner_names=40, plain_names=24)
_MINIMAL = _Detail(0, 0, 0, choices=6, levels=0, inner_names=0, plain_names=6)
_DETAILS = (
    _Detail(400, 200, 120),
    _Detail(300, 120, 60),
    _Detail(300, 100, 0, choices=40),
    _Detail(200, 60, 0, choices=24, levels=4, plain_names=40),
    _Detail(160, 60, 0, choices=24, levels=3, inner_names=80, plain_names=40),
    _Detail(160, 40, 0, choices=16, levels=3, inner_names=60, plain_names=40),
    _Detail(120, 40, 0, choices=12, levels=2, inner_names=40, plain_names=24),
    _TERSE,
    replace(_TERSE, inner_names=20),
    replace(_TERSE, levels=1, inner_names=20),
    replace(_TERSE, levels=1, inner_names=10, choices=8),
    replace(_TERSE, levels=0, inner_names=0, choices=8),
    replace(_TERSE, levels=0, inner_names=0, choices=8, plain_names=12),
    replace(_MINIMAL, required_words=80),
    replace(_MINIMAL, required_words=60, optional_names=60),
    replace(_MINIMAL, required_words=40, optional_names=40),
    replace(_MINIMAL, optional_names=20),
    replace(_MINIMAL, optional_names=10, plain_names=4),
    replace(_MINIMAL, optional_names=0, plain_names=4),
    replace(_MINIMAL, optional_names=0, plain_names=0),
    *(replace(_MINIMAL, optional_names=0, plain_names=0, required_levels=levels) for levels in (8, 4, 2, 1)),
)
OUTER_PLAIN_NAMES = 10  # times `plain_names`, of an object that is not inside of an optional argument


def build_told_schema(checked: Mapping[str, Any]) -> ToldSchema:
    """What the model is told of the arguments that `checked` (`tools.schemas.resolve`) checks.

    A description of the whole, which no template renders, belongs to that of the tool.
    """
    told = _build(checked, _Detail())
    if _fits(told.schema):
        return told
    place = bisect_left(_DETAILS, True, key=lambda detail: _fits(_build(checked, detail).schema))
    if place == len(_DETAILS):
        return _cut_required(_build(checked, _DETAILS[-1]))
    told = _build(checked, _DETAILS[place])
    return replace(told, warnings=(*told.warnings, TOLD_IN_SHORT))


def _build(checked: Mapping[str, Any], detail: _Detail) -> ToldSchema:
    builder = _ToldSchemaBuilder(detail)
    told = builder.build(checked, _ROOT)
    told.setdefault("properties", {})
    return ToldSchema(told, builder.warnings)


def _fits(schema: Schema) -> bool:
    return len(str(schema)) <= MAX_TOLD_CHARS


def _cut_required(told: ToldSchema) -> ToldSchema:
    """As many required arguments as fit, where even their names are too many."""
    cut: Schema = {**told.schema, "properties": {}, "required": []}
    for name in told.schema.get("required", ()):
        longer = {
            **cut,
            "properties": {**cut["properties"], name: told.schema["properties"][name]},
            "required": [*cut["required"], name],
        }
        if _fits(longer):
            cut = longer
    return ToldSchema(cut, (*told.warnings, "the schema requires more names than can be told"))


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a schema: its path for people, the name that leads there, its levels of objects and lists.

    `optional_level` are those since something optional, 0 on the way of what is required.
    """

    path: str = ""
    name: str = ""
    level: int = 0
    optional_level: int = 0

    def child(self, step: str, *, is_required: bool) -> "_Place":
        optional_level = self.optional_level
        if optional_level or not is_required:
            optional_level += 1
        path = f"{self.path}{step}".strip(".")[:120]
        return _Place(path, step.strip("."), self.level + 1, optional_level)


_ROOT = _Place()


class _ToldSchemaBuilder:
    """Builds what is told in this detail; keeps warnings of what cannot be told in any."""

    def __init__(self, detail: _Detail) -> None:
        self._detail = detail
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)[:MAX_WARNINGS]

    def _warn(self, place: _Place, reason: str) -> None:
        self._warnings[f"{place.path or 'the schema'} {reason}"] = None

    def build(self, schema: Mapping[str, Any], place: _Place) -> Schema:
        self._warn_of_unrendered(schema, place)
        schema = flatten_choice(schema)
        kind = infer_type(schema)
        shown: Schema = {"type": kind}
        words: list[str] = []
        names = list_enum_names(schema)
        max_choices = MAX_CHOICES if "x-kind" in schema else self._detail.choices
        if kind == "object":
            words = self._add_properties(shown, schema, place)
        elif kind == "array":
            words = self._add_items(shown, schema, place)
        if kind == "string" and 0 < len(names) <= max_choices:
            shown["enum"] = list(dict.fromkeys(names))
        else:
            words = [*describe_choices(schema, max_choices), *words]
        if schema.get("nullable") is True:
            shown["nullable"] = True
        description = self._describe(schema, words, place)
        if description:
            return {"description": description, **shown}
        return shown

    def _warn_of_unrendered(self, schema: Mapping[str, Any], place: _Place) -> None:
        for keyword in UNRENDERED_KEYWORDS:
            if keyword in schema:
                self._warn(place, f"has {keyword}, which is checked but not told")
        if "allOf" in schema:
            self._warn(place, "has conditions under allOf that are checked but not all told")

    def _describe(self, schema: Mapping[str, Any], words: list[str], place: _Place) -> str:
        """The description in as many characters as there are for it, with choices and names in any case."""
        max_chars = self._count_words(place)
        text = neutralize(schema.get("description", ""))
        if place is _ROOT or _spells_alike(text, place.name):
            text = ""
        if max_chars:
            words = [*words, *describe_limits(schema)]
            word_chars = sum(len(word) + 2 for word in words)
            max_chars = max(max_chars - word_chars, min(max_chars, MIN_DESCRIPTION_CHARS))
        if len(text) > max_chars:
            text = _shorten(text, max_chars)
        limits = "; ".join(words)
        if not limits:
            return text
        if not text:
            return neutralize(limits)
        return neutralize(f"{text.removesuffix('.')} ({limits})")

    def _count_words(self, place: _Place) -> int:
        if place.optional_level == 0:
            return self._detail.required_words
        if place.optional_level == 1:
            return self._detail.optional_words
        return self._detail.inner_words

    def _add_properties(self, shown: Schema, schema: Mapping[str, Any], place: _Place) -> list[str]:
        """Add properties as far as the detail goes; returns the names of the others, in words."""
        properties = {}
        for name, inner in schema.get("properties", {}).items():
            if neutralize(name) == name:
                properties[name] = inner
            else:
                self._warn(place, "has a name that the model cannot be told; it is left out")
        if not properties:
            return []
        # What has a default is filled in, and need not be asked for.
        required = [name for name in properties if name in schema.get("required", ())]
        required = [name for name in required if "x-default" not in properties[name]]
        if self._is_too_deep(place):
            return [describe_names(properties, required, self._detail.plain_names)]
        optional = [name for name in properties if name not in required]
        is_outer = place.optional_level == 0
        count = self._detail.optional_names if is_outer else self._detail.inner_names
        typed = {*required, *optional[:count]}
        shown["properties"] = {
            name: self.build(inner, place.child(f".{name}", is_required=name in required))
            for name, inner in properties.items()
            if name in typed
        }
        if required:
            shown["required"] = sorted(required)
        if len(optional) <= count:
            return []
        plain_names = self._detail.plain_names * (OUTER_PLAIN_NAMES if is_outer else 1)
        return [f"also {describe_names(optional[count:], (), plain_names)}"]

    def _add_items(self, shown: Schema, schema: Mapping[str, Any], place: _Place) -> list[str]:
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items:
            return []
        flat_items = flatten_choice(items)
        kind = infer_type(flat_items)
        if kind not in ("object", "array") or not self._is_too_deep(place):
            shown["items"] = self.build(items, place.child("[]", is_required=True))
            return []
        return [f"each {describe_type(flat_items, self._detail.plain_names)}"]

    def _is_too_deep(self, place: _Place) -> bool:
        if place.optional_level:
            return place.optional_level > self._detail.levels
        return place.level >= self._detail.required_levels


def _spells_alike(text: str, name: str) -> bool:
    """Whether a text is but the name again, as the titles are that pydantic makes of names."""
    return _NO_LETTERS.sub("", text).casefold() == _NO_LETTERS.sub("", name).casefold()


def _shorten(text: str, max_chars: int) -> str:
    """The beginning of a text, its first sentence if that is not much shorter."""
    cut = text[:max_chars]
    sentence, period, _ = cut.rpartition(". ")
    if period and len(sentence) > max_chars // 2:
        return f"{sentence}."
    if not cut:
        return ""
    return f"{cut.rstrip()}…"
