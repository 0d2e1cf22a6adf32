"""Turns a typed, documented function into what a model is told about it, and JSON values back into Python's.

Pure, and free of the other files of this room. Written are only the keywords the model's template renders:
description, type, string enum, items, properties, required and nullable; `default` stays for the check of
arguments.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal, Union

import docstring_parser

SIMPLE: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ToolDefinitionError(TypeError):
    """A tool is written wrongly; the text says where and what is missing. Raised when it is defined, never
    when run.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A type as the model sees it (`schema`) and the way from a checked JSON value to it (`read`)."""

    schema: dict[str, Any]
    read: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: its description, the schema of its arguments, and who among them is given the
    context.
    """

    description: str
    input_schema: dict[str, Any]
    readers: dict[str, Callable[[Any], Any]]
    context_name: str | None

    def read(self, arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Keyword arguments for the function, from checked JSON values."""
        given = {name: self.readers[name](value) for name, value in arguments.items()}
        if self.context_name is None:
            return given
        return {**given, self.context_name: context}


def signature_of(function: Callable[..., Any], context_type: type) -> Signature:
    """Read a function's signature and docstring; a parameter annotated `context_type` is left out of the
    schema.

    Raises ToolDefinitionError for a missing description, a missing or unknown type, `*args` and `**kwargs`.
    """
    place = f"{function.__module__}.{function.__qualname__}"
    written = docstring_parser.parse(inspect.getdoc(function) or "")
    if not written.description:
        raise ToolDefinitionError(
            f"{place} has no docstring: its first lines tell the model what the tool does"
        )
    hints = _hints(function, place)
    contexts = [name for name, hint in hints.items() if hint is context_type and name != "return"]
    parameters = {n: p for n, p in inspect.signature(function).parameters.items() if n not in contexts}
    described = {p.arg_name: p.description for p in written.params}
    shapes = {name: _parameter(f"{place}({name})", p, hints, described) for name, p in parameters.items()}
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return Signature(
        description=" ".join(written.description.split()),
        input_schema=_object({name: shape.schema for name, shape in shapes.items()}, required),
        readers={name: shape.read for name, shape in shapes.items()},
        context_name=contexts[0] if contexts else None,
    )


def _hints(owner: Any, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(owner)
    except NameError as error:
        raise ToolDefinitionError(f"{place}: a type cannot be found: {error}") from error


def _parameter(
    place: str, parameter: inspect.Parameter, hints: Mapping[str, Any], described: Mapping[str, str | None]
) -> Shape:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ToolDefinitionError(f"{place}: a tool's parameters are named one by one")
    if parameter.name not in hints:
        raise ToolDefinitionError(f"{place} has no type")
    description = " ".join((described.get(parameter.name) or "").split())
    if not description:
        raise ToolDefinitionError(f"{place} is not described: add it under 'Args:' in the docstring")
    shape = shape_of(hints[parameter.name], place)
    if parameter.default is parameter.empty:
        return Shape({"description": description, **shape.schema}, shape.read)
    # Whoever may leave it out need not be told that null is welcome too: fewer tokens in every prompt.
    schema = {key: value for key, value in shape.schema.items() if key != "nullable"}
    if isinstance(parameter.default, Enum):
        default = parameter.default.value
    else:
        default = parameter.default
    if default is None:
        return Shape({"description": description, **schema}, shape.read)
    if "default" not in description and default != "":
        description = f"{description.removesuffix('.')} (default {default})"
    return Shape({"description": description, **schema, "default": default}, shape.read)


def shape_of(annotation: Any, place: str) -> Shape:
    """The shape of one type; raises ToolDefinitionError, naming `place`, for a type the model cannot be told."""
    if annotation in SIMPLE:
        return Shape({"type": SIMPLE[annotation]}, float if annotation is float else _as_it_is)
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _optional(annotation, inner, place)
    if origin is Literal:
        return _choice(list(inner), _as_it_is, place)
    if annotation is dict or origin is dict:
        return Shape({"type": "object"}, _as_it_is)
    if origin is list:
        item = shape_of(inner[0], place)
        return Shape(
            {"type": "array", "items": item.schema}, lambda values: [item.read(value) for value in values]
        )
    return _named(annotation, place)


def _named(annotation: Any, place: str) -> Shape:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _choice([member.value for member in annotation], annotation, place)
    if typing.is_typeddict(annotation):
        return _record(annotation, list(annotation.__required_keys__), dict, place)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        missing = dataclasses.MISSING
        fields = dataclasses.fields(annotation)
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        return _record(annotation, required, annotation, place)
    raise ToolDefinitionError(
        f"{place}: {annotation!r} cannot be told to the model; take str, int, float, bool, list[...], dict, "
        "Literal or Enum of strings, X | None, a TypedDict or a dataclass"
    )


def _optional(annotation: Any, inner: tuple[Any, ...], place: str) -> Shape:
    kinds = [kind for kind in inner if kind is not types.NoneType]
    if len(kinds) != 1 or len(kinds) == len(inner):
        raise ToolDefinitionError(
            f"{place}: {annotation} is a choice of types; the model's template renders only one"
        )
    shape = shape_of(kinds[0], place)
    return Shape(
        {**shape.schema, "nullable": True}, lambda value: None if value is None else shape.read(value)
    )


def _choice(values: list[Any], read: Callable[[Any], Any], place: str) -> Shape:
    if not all(isinstance(value, str) for value in values):
        raise ToolDefinitionError(f"{place}: choices are strings, not {values}")
    return Shape({"type": "string", "enum": values}, read)


def _record(annotation: Any, required: list[str], build: Callable[..., Any], place: str) -> Shape:
    described = {
        p.arg_name: p.description for p in docstring_parser.parse(inspect.getdoc(annotation) or "").params
    }
    shapes = {name: shape_of(hint, f"{place}.{name}") for name, hint in _hints(annotation, place).items()}
    properties = {
        name: {"description": described[name], **shape.schema} if described.get(name) else shape.schema
        for name, shape in shapes.items()
    }
    return Shape(
        {**_object(properties, required), "additionalProperties": False},
        lambda value: build(**{name: shapes[name].read(inner) for name, inner in value.items()}),
    )


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        return {**schema, "required": sorted(required)}
    return schema


def _as_it_is(value: Any) -> Any:
    return value
