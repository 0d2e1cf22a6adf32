"""Makes a schema that a stranger wrote whole and safe: what arguments can be checked against without any
surprise.

Pure and bounded. References are followed within one document only and put in place, so that nothing is ever
fetched; OpenAPI 3.0's words become JSON Schema's; what could break a check or keep it busy is left out and
reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tools.schemas.keywords import LISTS, MAPS, PLAIN, SILENT, SINGLES, STRICT, is_short
from tools.schemas.merge import merged
from tools.schemas.patterns import is_quick
from tools.schemas.signature import ToolDefinitionError

DEPTH = 24  # steps into a schema, references counted
PARTS = 1000  # schemas within a schema, those that were referred to counted each time
LINKS = 4  # references within what was referred to
AGAIN = 1  # how often a schema is repeated within itself
REPORTED = 20
HINT = 200  # characters of a default or an example

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkable:
    """A schema without references, and what of the original is not in it, a sentence each."""

    schema: Schema
    reported: tuple[str, ...]


def checkable(schema: object, within: object = None) -> Checkable:
    """The schema, its `#/…` looked up in `within` (the schema itself if none is given).

    Raises ToolDefinitionError for a reference that leads elsewhere or nowhere.
    """
    walk = _Walk(schema if within is None else within)
    try:
        found = walk.into(schema, _Place())
    except RecursionError:
        raise ToolDefinitionError("the schema is nested too deep to be read; make it flatter") from None
    return Checkable(found, walk.told())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema: its path for people, how many steps in, and which references led here."""

    path: str = ""
    depth: int = 0
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.path or "the schema"

    def down(self, step: str = "") -> "_Place":
        if self.path and step:
            path = f"{self.path}.{step}"
        else:
            path = self.path or step
        return replace(self, path=path[:120], depth=self.depth + 1)


class _Walk:
    def __init__(self, within: object) -> None:
        from referencing import Registry, Resource

        self._documents: Any = Registry().with_resource("", Resource.opaque(within)).resolver()
        self._left = PARTS
        self._cuts = 0
        self._reported: dict[str, None] = {}

    def told(self) -> tuple[str, ...]:
        reported = sorted(
            self._reported, key=lambda each: not each.startswith(f"{_Place()} ")
        )  # of all of it first
        more = len(reported) - REPORTED
        return (*reported[:REPORTED], *([f"and {more} more of the kind"] if more > 0 else []))

    def into(self, schema: object, place: _Place) -> Schema:
        if isinstance(schema, bool):
            if schema:
                return {}
            return {"not": {}}
        if not isinstance(schema, Mapping):
            return self._cut(place, "is no schema and is left open")
        self._left -= 1
        if self._left < 0:
            return self._cut(_Place(), "is too large; what is beyond its first parts is left open")
        if place.depth > DEPTH:
            return self._cut(place, "is nested too deep and left open", schema)
        if "$ref" in schema:
            return self._followed(schema, place)
        return self._whole(schema, place)

    def _cut(self, place: _Place, why: str, schema: Mapping[str, Any] | None = None) -> Schema:
        self._cuts += 1
        self._report(place, why)
        kind = (schema or {}).get("type")
        if isinstance(kind, str) and PLAIN["type"](kind):
            return {"type": kind}
        return {}

    def _report(self, place: _Place, why: str) -> None:
        self._reported[f"{place} {why}"] = None

    def _followed(self, schema: Mapping[str, Any], place: _Place) -> Schema:
        reference = schema["$ref"]
        target = self.lookup(reference, place)
        if place.references.count(reference) > AGAIN:
            return self._cut(
                place, "contains itself and is left open there", target if isinstance(target, dict) else None
            )
        if len(place.references) == LINKS:
            return self._cut(
                place, "refers on and on and is left open there", target if isinstance(target, dict) else None
            )
        there = replace(place.down(), references=(*place.references, reference))
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        found = self.into(target, there)
        if beside:
            return merged(self._whole(beside, place), found)
        return found

    def lookup(self, reference: object, place: _Place) -> object:
        """What a reference leads to. Raises ToolDefinitionError for one out of the document, or to nothing."""
        from referencing.exceptions import Unresolvable

        shown = repr(reference)[:100]
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise ToolDefinitionError(
                f"{place} refers to {shown}; only references within the document (#/…) are followed: put it there"
            )
        try:
            return self._documents.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError, LookupError):
            raise ToolDefinitionError(f"{place} refers to {shown}, which is not in the document") from None

    def _whole(self, schema: Mapping[str, Any], place: _Place) -> Schema:
        found = self._plain(schema, place)
        for keywords, read in ((MAPS, self._map), (SINGLES, self._single), (LISTS, self._list)):
            for keyword in keywords:
                if keyword in schema:
                    self._take(found, keyword, schema[keyword], place, read)
        self._hint(found, schema)
        return _in_order(found, schema)

    def _plain(self, schema: Mapping[str, Any], place: _Place) -> Schema:
        found: Schema = {}
        for keyword, value in schema.items():
            if keyword in PLAIN and PLAIN[keyword](value):
                found[keyword] = value
            elif keyword in PLAIN:
                self._report(place, f"has {keyword} {repr(value)[:40]}, which is not understood and left out")
            elif keyword not in {*MAPS, *SINGLES, *LISTS, *SILENT} and not str(keyword).startswith("x-"):
                self._report(place, f"has {str(keyword)[:40]}, which is not supported and left out")
        if "pattern" in found and not is_quick(found["pattern"]):
            found["x-pattern"] = found.pop("pattern")
            self._report(place, "has a pattern that is told but not checked here")
        if isinstance(schema.get("title"), str) and not found.get("description"):
            found["description"] = schema["title"]
        return found

    def _take(
        self,
        found: Schema,
        keyword: str,
        value: object,
        place: _Place,
        read: Callable[[str, Any, _Place], Any],
    ) -> None:
        """Add one keyword that holds schemas, if it is well-formed and nothing in it had to be loosened that
        counts.
        """
        before = self._cuts
        inner = read(keyword, value, place)
        loosened = self._cuts > before
        if inner is None or (loosened and keyword in STRICT):
            self._report(place, f"has {keyword}, which is left out")
        elif keyword == "oneOf" and loosened:
            found["anyOf"] = inner
        elif keyword == "allOf":
            for part in inner:
                found.update(merged(found, part))
        else:
            found[keyword] = inner

    def _map(self, keyword: str, value: object, place: _Place) -> Schema | None:
        if not isinstance(value, Mapping):
            return None
        if keyword == "patternProperties" and not all(map(is_quick, value)):
            return None
        return {
            str(name): self.into(inner, place.down(str(name)[:40]))
            for name, inner in value.items()
            if not (isinstance(inner, Mapping) and inner.get("readOnly") is True)
        }

    def _single(self, keyword: str, value: object, place: _Place) -> Schema | bool | None:
        if isinstance(value, list):
            return None  # tuples of old drafts
        inner = self.into(value, place.down(keyword if keyword == "items" else ""))
        if keyword == "additionalProperties":
            return inner or True
        return inner

    def _list(self, keyword: str, value: object, place: _Place) -> list[Schema] | None:
        if not isinstance(value, list) or not value:
            return None
        return [self.into(inner, place.down()) for inner in value]

    @staticmethod
    def _hint(found: Schema, schema: Mapping[str, Any]) -> None:
        """Defaults and examples are told, never filled in: the service knows its own."""
        examples = schema.get("examples")
        first = examples[0] if isinstance(examples, list) and examples else None
        for keyword, value in (
            ("x-default", schema.get("default")),
            ("x-example", schema.get("example", first)),
        ):
            if value not in (None, "", [], {}) and is_short(value) and len(str(value)) <= HINT:
                found[keyword] = value
        if schema.get("nullable") is True:
            found["nullable"] = True


def _in_order(found: Schema, schema: Mapping[str, Any]) -> Schema:
    """The same in today's words: bounds as numbers, null as `nullable`, a choice of one without the choice."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(found.get(bound), bool) and found.pop(bound) and limit in found:
            found[bound] = found.pop(limit)
    if isinstance(found.get("type"), list):
        kinds = [kind for kind in found["type"] if kind != "null"]
        found |= {"nullable": True} if kinds and len(kinds) < len(found["type"]) else {}
        found["type"] = kinds[0] if len(kinds) == 1 else kinds or "null"
    for choice in ("anyOf", "oneOf"):
        found = _chosen(found, choice)
    if "required" in found and isinstance(schema.get("properties"), Mapping):
        hidden = set(map(str, schema["properties"])) - set(found.get("properties", ()))
        found["required"] = [name for name in found["required"] if name not in hidden]
    return found


def _chosen(found: Schema, choice: str) -> Schema:
    options = [option for option in found.get(choice, ()) if option.get("type") != "null"]
    if not options:
        return found
    rest = {keyword: value for keyword, value in found.items() if keyword != choice}
    if len(options) < len(found[choice]):
        rest["nullable"] = True
    if len(options) == 1:
        return merged(rest, options[0])
    return {**rest, choice: options}
