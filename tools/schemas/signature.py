"""Reads a typed, documented function into the schema a model is shown, and converts JSON values to Python's.

Pure, and independent of the other files of this package. Writes only the keywords that the model's template
renders: description, type, string enum, items, properties, required and nullable; `default` is kept for the
check of arguments.
"""

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal, Union

import docstring_parser

SIMPLE_TYPES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class ToolDefinitionError(TypeError):
    """A tool is defined wrongly; the text says where and what is missing.

    Raised when the tool is defined, never when it runs.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterType:
    """The schema of a type, and how a checked JSON value is converted to it."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: its description, the schema of its arguments and how each is converted.

    `context_name` is the parameter that receives the context; None: there is none.
    """

    description: str
    input_schema: dict[str, Any]
    converters: dict[str, Callable[[Any], Any]]
    context_name: str | None

    def build_kwargs(self, arguments: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Keyword arguments for the function, from checked JSON values."""
        kwargs = {name: self.converters[name](value) for name, value in arguments.items()}
        if self.context_name is None:
            return kwargs
        return {**kwargs, self.context_name: context}


def parse_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """Read a function's signature and docstring; a parameter annotated `context_type` is not in the schema.

    Raises ToolDefinitionError for a missing description, a missing or unknown type, `*args` and `**kwargs`.
    """
    location = f"{function.__module__}.{function.__qualname__}"
    docstring = docstring_parser.parse(inspect.getdoc(function) or "")
    if not docstring.description:
        raise ToolDefinitionError(
            f"{location} has no docstring: its first lines tell the model what the tool does"
        )
    hints = _resolve_type_hints(function, location)
    contexts = [name for name, hint in hints.items() if hint is context_type and name != "return"]
    parameters = {n: p for n, p in inspect.signature(function).parameters.items() if n not in contexts}
    described = {param.arg_name: param.description for param in docstring.params}
    shapes = {
        name: _build_parameter(f"{location}({name})", p, hints, described) for name, p in parameters.items()
    }
    named = set(re.findall(r"\w+", docstring.description))
    for name, shape in shapes.items():
        if "description" not in shape.schema and name not in named:
            raise ToolDefinitionError(
                f"{location}({name}) is not described: "
                "add it under 'Args:' in the docstring, or name it above"
            )
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return Signature(
        description=" ".join(docstring.description.split()),
        input_schema=_object_schema({name: shape.schema for name, shape in shapes.items()}, required),
        converters={name: shape.convert for name, shape in shapes.items()},
        context_name=next(iter(contexts), None),
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
    shape = build_parameter_type(hints[parameter.name], location)
    if parameter.default is parameter.empty:
        return ParameterType(_describe(description, shape.schema), shape.convert)
    # An argument that may be left out need not be nullable too: fewer tokens in every prompt.
    schema = {key: value for key, value in shape.schema.items() if key != "nullable"}
    default = parameter.default
    if isinstance(default, Enum):
        default = default.value
    if default is None:
        return ParameterType(_describe(description, schema), shape.convert)
    if "default" not in description and default != "":
        description = f"{description.removesuffix('.')} (default {default})".lstrip()
    return ParameterType({**_describe(description, schema), "default": default}, shape.convert)


def _describe(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    if description:
        return {"description": description, **schema}
    return schema


def build_parameter_type(annotation: Any, location: str) -> ParameterType:
    """The schema and conversion of one type.

    Raises ToolDefinitionError, naming `location`, for a type that the model cannot be shown.
    """
    if annotation in SIMPLE_TYPES:
        convert = float if annotation is float else _identity
        return ParameterType({"type": SIMPLE_TYPES[annotation]}, convert)
    origin = typing.get_origin(annotation)
    inner = typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _build_optional(annotation, inner, location)
    if origin is Literal:
        return _build_choice(list(inner), _identity, location)
    if annotation is dict or origin is dict:
        return ParameterType({"type": "object"}, _keep_texts if inner[1:] == (str,) else _identity)
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
        f"{location}: {annotation!r} cannot be told to the model; take str, int, float, bool, "
        "list[...], dict, Literal or Enum of strings, X | None, a TypedDict or a dataclass"
    )


def _build_optional(annotation: Any, members: tuple[Any, ...], location: str) -> ParameterType:
    kinds = [kind for kind in members if kind is not types.NoneType]
    if len(kinds) != 1 or len(kinds) == len(members):
        raise ToolDefinitionError(
            f"{location}: {annotation} is a choice of types; the model's template renders only one"
        )
    shape = build_parameter_type(kinds[0], location)

    def convert(value: Any) -> Any:
        return None if value is None else shape.convert(value)

    return ParameterType({**shape.schema, "nullable": True}, convert)


def _build_choice(values: list[Any], convert: Callable[[Any], Any], location: str) -> ParameterType:
    if not all(isinstance(value, str) for value in values):
        raise ToolDefinitionError(f"{location}: choices are strings, not {values}")
    return ParameterType({"type": "string", "enum": values}, convert)


def _build_record(
    annotation: Any, required: list[str], factory: Callable[..., Any], location: str
) -> ParameterType:
    docstring = docstring_parser.parse(inspect.getdoc(annotation) or "")
    described = {param.arg_name: param.description for param in docstring.params}
    shapes = {
        name: build_parameter_type(hint, f"{location}.{name}")
        for name, hint in _resolve_type_hints(annotation, location).items()
    }
    properties = {}
    for name, shape in shapes.items():
        properties[name] = shape.schema
        if described.get(name):
            properties[name] = {"description": described[name], **shape.schema}
    return ParameterType(
        {**_object_schema(properties, required), "additionalProperties": False},
        lambda value: factory(**{name: shapes[name].convert(inner) for name, inner in value.items()}),
    )


def _object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        return {**schema, "required": sorted(required)}
    return schema


def _keep_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values as the texts they were: the check of arguments reads what spells a number in an object."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


def _identity(value: Any) -> Any:
    return value
