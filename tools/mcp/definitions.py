"""What a server says its tools are, made fit for the house: names, descriptions, schemas, and what is
believed. Pure.

All of it was written by a stranger. What cannot be used is left out and reported; it never takes the others
with it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tools.base import NAME
from tools.schemas.reduce import reduced
from tools.schemas.signature import ToolDefinitionError
from tools.url_argument import opens

TOOLS = 200  # of one server
NAME_LENGTH = 200  # characters
DESCRIPTION = 2000  # characters; it is in every prompt that offers the tool
SCHEMA = 30_000  # characters of JSON before it is reduced


@dataclass(frozen=True, slots=True)
class Told:
    """A tool as its server tells of it; `schema` is None where it is too long to be kept."""

    name: str
    description: str
    schema: Mapping[str, Any] | None
    read_only: bool
    idempotent: bool


def bounded(told: Told) -> Told:
    """The same without what is too long: a listing may have hundreds of them."""
    too_long = told.schema is not None and len(json.dumps(told.schema)) > SCHEMA
    shorter = replace(
        told, name=told.name[: NAME_LENGTH + 1], description=told.description[: DESCRIPTION + 1]
    )
    if too_long:
        return replace(shorter, schema=None)
    return shorter


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool of a server as the house knows it: `name` is what the model calls it, `remote` what its server
    does.

    `told` is the schema in the model's words, `input_schema` what arguments are checked against. `reads`: its
    server says that it changes nothing; `repeatable`: that a second run does no harm. `opens`: the argument
    that holds an address. Made of JSON values only, so that it can be kept as `as_json`.
    """

    name: str
    remote: str
    description: str
    input_schema: dict[str, Any]
    told: dict[str, Any]
    reads: bool
    repeatable: bool
    opens: str | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server that can be used, sorted by name, and what was `reported` of them and the others."""

    definitions: tuple[Definition, ...]
    reported: tuple[str, ...]


class _Unusable(Exception):
    """This tool is left out; the text says why."""


def listing(server: str, told: Iterable[Told]) -> Listing:
    """What a server of this name offers, by what it has told."""
    found: dict[str, Definition] = {}
    reported: list[str] = []
    for number, one in enumerate(told):
        if number == TOOLS:
            reported.append(f"only the first {TOOLS} tools are used")
            break
        shown = one.name[:80]
        try:
            definition, remarks = _definition(server, one)
        except _Unusable as why:
            reported.append(f"{shown!r} is left out: {why}")
            continue
        if definition.name in found:
            other = found[definition.name].remote
            reported.append(f"{shown!r} is left out: it would be called {definition.name}, as {other!r} is")
            continue
        found[definition.name] = definition
        reported.extend(f"{definition.name}: {remark}" for remark in remarks)
    return Listing(tuple(found[name] for name in sorted(found)), tuple(reported))


def _definition(server: str, told: Told) -> tuple[Definition, list[str]]:
    name = _name(server, told.name)
    remarks = []
    description = told.description.strip() or f"The tool {told.name} of {server}."
    if len(description) > DESCRIPTION:
        remarks.append(f"its description is cut to {DESCRIPTION} characters")
        description = description[:DESCRIPTION]
    if told.schema is None:
        raise _Unusable(f"its schema is longer than {SCHEMA} characters")
    try:
        schema = reduced(dict(told.schema))
    except (ToolDefinitionError, ValueError, RecursionError) as error:
        raise _Unusable(f"its schema cannot be used ({str(error)[:200]})") from error
    definition = Definition(
        name=name,
        remote=told.name,
        description=description,
        input_schema=schema.checked,
        told=schema.schema,
        reads=told.read_only,
        repeatable=told.read_only or told.idempotent,
        opens=opens(told.schema, schema.checked),
    )
    return definition, [*remarks, *schema.reported]


def _name(server: str, remote: str) -> str:
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", remote)
    plain = re.sub(r"[^a-z0-9]+", "_", apart.lower()).strip("_")
    name = f"{server}_{plain}"
    if not plain or not NAME.fullmatch(name) or len(remote) > NAME_LENGTH:
        raise _Unusable("no name of at most 64 letters, digits and _ can be made of its own")
    return name
