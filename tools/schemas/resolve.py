"""Makes a stranger's schema self-contained and safe: arguments can be checked against it without surprises.

Pure and bounded. References are followed within one document only and replaced by what they refer to, so that
nothing is ever fetched; OpenAPI 3.0's keywords become JSON Schema's; what could break a check or keep it busy
is left out and reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.schemas.choices import merge_alternatives
from tools.schemas.keywords import (
    IGNORED_KEYWORDS,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    STRICT_KEYWORDS,
    VALUE_CHECKS,
    is_small_json,
)
from tools.schemas.merge import merge_schemas
from tools.schemas.patterns import is_safe_pattern
from tools.schemas.signature import ToolDefinitionError

MAX_DEPTH = 24  # of steps into a schema, references counted
MAX_SUBSCHEMAS = 1000  # those behind references are counted each time
MAX_NESTED_REFERENCES = 4  # of references within the targets of references
MAX_REPEATS = 1  # of a schema within itself
MAX_WARNINGS = 20
MAX_HINT_CHARS = 200  # of a default or an example

Schema = dict[str, Any]

_HANDLED_KEYWORDS = IGNORED_KEYWORDS | {*SCHEMA_MAP_KEYWORDS, *SCHEMA_KEYWORDS, *SCHEMA_LIST_KEYWORDS}


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema without references; `warnings` are what of the original is not in it, a sentence each."""

    schema: Schema
    warnings: tuple[str, ...]


def resolve_schema(schema: object, document: object = None) -> ResolvedSchema:
    """The schema, its `#/…` looked up in `document` (None: the schema itself).

    Raises ToolDefinitionError for a reference that leads elsewhere or nowhere.
    """
    resolver = _SchemaResolver(schema if document is None else document)
    try:
        resolved = resolver.resolve(schema, _SchemaLocation())
    except RecursionError:
        raise ToolDefinitionError("the schema is nested too deep to be read; make it flatter") from None
    return ResolvedSchema(resolved, resolver.list_warnings())


def resolve_arguments(schema: object, document: object = None) -> ResolvedSchema:
    """The schema of an object of arguments, all of them in `properties`; see `resolve_schema`.

    Raises ToolDefinitionError, saying what to do, also for a schema that describes no object.
    """
    if not isinstance(schema, Mapping):
        raise ToolDefinitionError("the schema of the arguments must be a JSON object")
    resolved = resolve_schema(schema, document)
    return replace(resolved, schema=_to_object_schema(resolved.schema))


def _to_object_schema(schema: Schema) -> Schema:
    if schema.get("type", "object") != "object":
        raise ToolDefinitionError(
            f"arguments are an object with named values, not {schema['type']}: "
            "describe an object with properties"
        )
    properties = dict(schema.get("properties", {}))
    for choice in ("allOf", "oneOf", "anyOf"):
        options = [option.get("properties", {}) for option in schema.get(choice, ())]
        for name in dict.fromkeys(name for option in options for name in option):
            alternatives = [option[name] for option in options if name in option]
            properties.setdefault(name, merge_alternatives(alternatives))
    undescribed: Schema = {name: {} for name in schema.get("required", ()) if name not in properties}
    object_schema = {**schema, "type": "object", "properties": {**properties, **undescribed}}
    object_schema.pop("nullable", None)
    return object_schema


@dataclass(frozen=True, slots=True)
class _SchemaLocation:
    """A location in a schema: its path for people, its depth, and the references that led there."""

    path: str = ""
    depth: int = 0
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.path or "the schema"

    def child(self, step: str = "") -> "_SchemaLocation":
        path = self.path or step
        if self.path and step:
            path = f"{self.path}.{step}"
        return replace(self, path=path[:120], depth=self.depth + 1)


class _SchemaResolver:
    def __init__(self, document: object) -> None:
        from referencing import Registry, Resource

        self._reference_resolver: Any = Registry().with_resource("", Resource.opaque(document)).resolver()
        self._subschemas_left = MAX_SUBSCHEMAS
        self._cut_count = 0
        self._warnings: dict[str, None] = {}

    def list_warnings(self) -> tuple[str, ...]:
        """The warnings, those about the whole schema first, MAX_WARNINGS at most."""
        warnings = sorted(self._warnings, key=lambda warning: not warning.startswith(f"{_SchemaLocation()} "))
        more = len(warnings) - MAX_WARNINGS
        if more > 0:
            return (*warnings[:MAX_WARNINGS], f"and {more} more of the kind")
        return tuple(warnings)

    def resolve(self, schema: object, location: _SchemaLocation) -> Schema:
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not isinstance(schema, Mapping):
            return self._leave_open(location, "is no schema and is left open")
        self._subschemas_left -= 1
        if self._subschemas_left < 0:
            return self._leave_open(
                _SchemaLocation(), "is too large; what is beyond its first parts is left open"
            )
        if location.depth > MAX_DEPTH:
            return self._leave_open(location, "is nested too deep and left open", schema)
        if "$ref" in schema:
            return self._resolve_reference(schema, location)
        return self._resolve_keywords(schema, location)

    def _leave_open(
        self, location: _SchemaLocation, reason: str, schema: Mapping[str, Any] | None = None
    ) -> Schema:
        self._cut_count += 1
        self._warn(location, reason)
        kind = (schema or {}).get("type")
        if isinstance(kind, str) and VALUE_CHECKS["type"](kind):
            return {"type": kind}
        return {}

    def _warn(self, location: _SchemaLocation, reason: str) -> None:
        self._warnings[f"{location} {reason}"] = None

    def _resolve_reference(self, schema: Mapping[str, Any], location: _SchemaLocation) -> Schema:
        reference = schema["$ref"]
        target = self.lookup(reference, location)
        target_schema = target if isinstance(target, dict) else None
        if location.references.count(reference) > MAX_REPEATS:
            return self._leave_open(location, "contains itself and is left open there", target_schema)
        if len(location.references) == MAX_NESTED_REFERENCES:
            return self._leave_open(location, "refers on and on and is left open there", target_schema)
        target_location = replace(location.child(), references=(*location.references, reference))
        siblings = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        resolved = self.resolve(target, target_location)
        if siblings:
            return merge_schemas(self._resolve_keywords(siblings, location), resolved)
        return resolved

    def lookup(self, reference: object, location: _SchemaLocation) -> object:
        """The target of a reference.

        Raises ToolDefinitionError for one that leaves the document, or has no target.
        """
        from referencing.exceptions import Unresolvable

        quoted = repr(reference)[:100]
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise ToolDefinitionError(
                f"{location} refers to {quoted}; "
                "only references within the document (#/…) are followed: put it there"
            )
        try:
            return self._reference_resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError, LookupError):
            raise ToolDefinitionError(
                f"{location} refers to {quoted}, which is not in the document"
            ) from None

    def _resolve_keywords(self, schema: Mapping[str, Any], location: _SchemaLocation) -> Schema:
        resolved = self._copy_plain_keywords(schema, location)
        for keywords, resolve_value in (
            (SCHEMA_MAP_KEYWORDS, self._resolve_map),
            (SCHEMA_KEYWORDS, self._resolve_single),
            (SCHEMA_LIST_KEYWORDS, self._resolve_list),
        ):
            for keyword in keywords:
                if keyword in schema:
                    self._add_keyword(resolved, keyword, schema[keyword], location, resolve_value)
        self._add_hints(resolved, schema)
        return _modernize(resolved, schema)

    def _copy_plain_keywords(self, schema: Mapping[str, Any], location: _SchemaLocation) -> Schema:
        copied: Schema = {}
        for keyword, value in schema.items():
            if keyword in VALUE_CHECKS and VALUE_CHECKS[keyword](value):
                copied[keyword] = value
            elif keyword in VALUE_CHECKS:
                self._warn(
                    location, f"has {keyword} {repr(value)[:40]}, which is not understood and left out"
                )
            elif keyword not in _HANDLED_KEYWORDS and not str(keyword).startswith("x-"):
                self._warn(location, f"has {str(keyword)[:40]}, which is not supported and left out")
        if "pattern" in copied and not is_safe_pattern(copied["pattern"]):
            copied["x-pattern"] = copied.pop("pattern")
            self._warn(location, "has a pattern that is told but not checked here")
        if isinstance(schema.get("title"), str) and not copied.get("description"):
            copied["description"] = schema["title"]
        return copied

    def _add_keyword(
        self,
        target: Schema,
        keyword: str,
        value: object,
        location: _SchemaLocation,
        resolve_value: Callable[[str, Any, _SchemaLocation], Any],
    ) -> None:
        """Add one keyword that holds schemas, unless it is malformed or loosening it does harm."""
        before = self._cut_count
        inner = resolve_value(keyword, value, location)
        loosened = self._cut_count > before
        if inner is None or (loosened and keyword in STRICT_KEYWORDS):
            self._warn(location, f"has {keyword}, which is left out")
        elif keyword == "oneOf" and loosened:
            target["anyOf"] = inner
        elif keyword == "allOf":
            for part in inner:
                target.update(merge_schemas(target, part))
        else:
            target[keyword] = inner

    def _resolve_map(self, keyword: str, value: object, location: _SchemaLocation) -> Schema | None:
        if not isinstance(value, Mapping):
            return None
        if keyword == "patternProperties" and not all(map(is_safe_pattern, value)):
            return None
        return {
            str(name): self.resolve(inner, location.child(str(name)[:40]))
            for name, inner in value.items()
            if not (isinstance(inner, Mapping) and inner.get("readOnly") is True)
        }

    def _resolve_single(self, keyword: str, value: object, location: _SchemaLocation) -> Schema | bool | None:
        if isinstance(value, list):
            return None  # tuples of old drafts
        step = "items" if keyword == "items" else ""
        inner = self.resolve(value, location.child(step))
        if keyword == "additionalProperties":
            return inner or True
        return inner

    def _resolve_list(self, keyword: str, value: object, location: _SchemaLocation) -> list[Schema] | None:
        if not isinstance(value, list) or not value:
            return None
        return [self.resolve(inner, location.child()) for inner in value]

    @staticmethod
    def _add_hints(target: Schema, schema: Mapping[str, Any]) -> None:
        """Add defaults and examples: they are shown, never filled in, since the service knows its own."""
        examples = schema.get("examples")
        first = examples[0] if isinstance(examples, list) and examples else None
        for keyword, value in (
            ("x-default", schema.get("default")),
            ("x-example", schema.get("example", first)),
        ):
            if value not in (None, "", [], {}) and is_small_json(value) and len(str(value)) <= MAX_HINT_CHARS:
                target[keyword] = value
        if schema.get("nullable") is True:
            target["nullable"] = True


def _modernize(resolved: Schema, schema: Mapping[str, Any]) -> Schema:
    """The schema in today's JSON Schema.

    Bounds are numbers, null is `nullable`, and a choice of one is no choice.
    """
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(resolved.get(bound), bool) and resolved.pop(bound) and limit in resolved:
            resolved[bound] = resolved.pop(limit)
    if isinstance(resolved.get("type"), list):
        kinds = [kind for kind in resolved["type"] if kind != "null"]
        if kinds and len(kinds) < len(resolved["type"]):
            resolved["nullable"] = True
        resolved["type"] = kinds[0] if len(kinds) == 1 else kinds or "null"
    for choice in ("anyOf", "oneOf"):
        resolved = _simplify_choice(resolved, choice)
    if "required" in resolved:
        resolved["required"] = list(dict.fromkeys(resolved["required"]))  # JSON Schema allows no name twice
        if isinstance(schema.get("properties"), Mapping):
            hidden = set(map(str, schema["properties"])) - set(resolved.get("properties", ()))
            resolved["required"] = [name for name in resolved["required"] if name not in hidden]
    return resolved


def _simplify_choice(schema: Schema, choice_keyword: str) -> Schema:
    options = [option for option in schema.get(choice_keyword, ()) if option.get("type") != "null"]
    if not options:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != choice_keyword}
    if len(options) < len(schema[choice_keyword]):
        rest["nullable"] = True
    if len(options) == 1:
        return merge_schemas(rest, options[0])
    return {**rest, choice_keyword: options}
