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

SIMPLE_TYPES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ToolDefinitionError(TypeError):
    """A tool is written wrongly; the text says where and what is missing. Raised when it is defined, never
    when run.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterType:
    """A type as the model sees it (`schema`) and the way from a checked JSON value to it (`read`)."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: its description, the schema of its arguments, and who among them is given the
    context.
    """

    description: str
    input_schema: dict[str, Any]
    converters: dict[str, Callable[[Any], Any]]
    context_name: str | None

    def build_kwargs(self, arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Keyword arguments for the function, from checked JSON values."""
        given = {name: self.converters[name](value) for name, value in arguments.items()}
        if self.context_name is None:
            return given
        return {**given, self.context_name: context}


def parse_signature(function: Callable[..., Any], context_type: type) -> Signature:
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
    hints = _resolve_type_hints(function, place)
    contexts = [name for name, hint in hints.items() if hint is context_type and name != "return"]
    parameters = {n: p for n, p in inspect.signature(function).parameters.items() if n not in contexts}
    described = {p.arg_name: p.description for p in written.params}
    shapes = {
        name: _build_parameter(f"{place}({name})", p, hints, described) for name, p in parameters.items()
    }
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return Signature(
        description=" ".join(written.description.split()),
        input_schema=_object_schema({name: shape.schema for name, shape in shapes.items()}, required),
        converters={name: shape.convert for name, shape in shapes.items()},
        context_name=contexts[0] if contexts else None,
    )


def _resolve_type_hints(owner: Any, location: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(owner)
    except NameError as error:
        raise ToolDefinitionError(f"{location}: a type cannot be found: {error}") from error


def _build_parameter(
    location: str, parameter: inspect.Parameter, hints: Mapping[str, Any], described: Mapping[str, str | None]
) -> ParameterType:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ToolDefinitionError(f"{location}: a tool's parameters are named one by one")
    if parameter.name not in hints:
        raise ToolDefinitionError(f"{location} has no type")
    description = " ".join((described.get(parameter.name) or "").split())
    if not description:
        raise ToolDefinitionError(f"{location} is not described: add it under 'Args:' in the docstring")
    shape = build_parameter_type(hints[parameter.name], location)
    if parameter.default is parameter.empty:
        return ParameterType({"description": description, **shape.schema}, shape.convert)
    # Whoever may leave it out need not be told that null is welcome too: fewer tokens in every prompt.
    schema = {key: value for key, value in shape.schema.items() if key != "nullable"}
    if isinstance(parameter.default, Enum):
        default = parameter.default.value
    else:
        default = parameter.default
    if default is None:
        return ParameterType({"description": description, **schema}, shape.convert)
    if "default" not in description and default != "":
        description = f"{description.removesuffix('.')} (default {default})"
    return ParameterType({"description": description, **schema, "default": default}, shape.convert)


def build_parameter_type(annotation: Any, location: str) -> ParameterType:
    """The shape of one type; raises ToolDefinitionError, naming `place`, for a type the model cannot be told."""
    if annotation in SIMPLE_TYPES:
        return ParameterType({"type": SIMPLE_TYPES[annotation]}, float if annotation is float else _identity)
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _build_optional(annotation, inner, location)
    if origin is Literal:
        return _build_choice(list(inner), _identity, location)
    if annotation is dict or origin is dict:
        return ParameterType({"type": "object"}, _identity)
    if origin is list:
        item = build_parameter_type(inner[0], location)
        return ParameterType(
            {"type": "array", "items": item.schema}, lambda values: [item.convert(value) for value in values]
        )
    return _build_class_type(annotation, location)


def _build_class_type(annotation: Any, location: str) -> ParameterType:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _build_choice([member.value for member in annotation], annotation, location)
    if typing.is_typeddict(annotation):
        return _build_record(annotation, list(annotation.__required_keys__), dict, location)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        missing = dataclasses.MISSING
        fields = dataclasses.fields(annotation)
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        return _build_record(annotation, required, annotation, location)
    raise ToolDefinitionError(
        f"{location}: {annotation!r} cannot be told to the model; take str, int, float, bool, list[...], dict, "
        "Literal or Enum of strings, X | None, a TypedDict or a dataclass"
    )


def _build_optional(annotation: Any, members: tuple[Any, ...], location: str) -> ParameterType:
    kinds = [kind for kind in members if kind is not types.NoneType]
    if len(kinds) != 1 or len(kinds) == len(members):
        raise ToolDefinitionError(
            f"{location}: {annotation} is a choice of types; the model's template renders only one"
        )
    shape = build_parameter_type(kinds[0], location)
    return ParameterType(
        {**shape.schema, "nullable": True}, lambda value: None if value is None else shape.convert(value)
    )


def _build_choice(values: list[Any], convert: Callable[[Any], Any], location: str) -> ParameterType:
    if not all(isinstance(value, str) for value in values):
        raise ToolDefinitionError(f"{location}: choices are strings, not {values}")
    return ParameterType({"type": "string", "enum": values}, convert)


def _build_record(
    annotation: Any, required: list[str], factory: Callable[..., Any], location: str
) -> ParameterType:
    described = {
        p.arg_name: p.description for p in docstring_parser.parse(inspect.getdoc(annotation) or "").params
    }
    shapes = {
        name: build_parameter_type(hint, f"{location}.{name}")
        for name, hint in _resolve_type_hints(annotation, location).items()
    }
    properties = {
        name: {"description": described[name], **shape.schema} if described.get(name) else shape.schema
        for name, shape in shapes.items()
    }
    return ParameterType(
        {**_object_schema(properties, required), "additionalProperties": False},
        lambda value: factory(**{name: shapes[name].convert(inner) for name, inner in value.items()}),
    )


def _object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        return {**schema, "required": sorted(required)}
    return schema


def _identity(value: Any) -> Any:
    return value
