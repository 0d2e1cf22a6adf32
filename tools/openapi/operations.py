"""Builds the route of one operation: its parameters and body become the arguments of one object.

Pure; runs in a process that can be killed. Raises DocumentUnreadable for an operation that cannot be called,
saying why.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tools.http.requests import IDEMPOTENCY_HEADER
from tools.http.routes import Body, HttpRoute
from tools.http.styles import (
    HEADER_NAME_PATTERN,
    SENDER_HEADERS,
    STYLES,
    HttpParameter,
    ParameterLocation,
    placeholder_names,
)
from tools.openapi.authentication import locate_parameter
from tools.openapi.loader import DocumentUnreadable
from tools.openapi.names import add_prefix, to_tool_name, unique_argument_names
from tools.openapi.outline import OpenApiOperation, Outline
from tools.openapi.request_bodies import RequestBody, read_request_body
from tools.openapi.values import as_list, as_mapping
from tools.safety.injection import neutralize
from tools.schemas.resolve import resolve_arguments
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema

MAX_DESCRIPTION_CHARS = 500
BODY_ARGUMENT = "body"
COOKIES_ADVICE = (
    "cookies are not asked of the model, they are somebody's login; give it as a secret (--cookie)"
)
DEFAULT_STYLES: Mapping[str, str] = {"path": "simple", "query": "form", "header": "simple"}
# A document may name them, an argument never fills them.
RESERVED_HEADERS = frozenset(
    {
        *SENDER_HEADERS,
        *("cookie", "accept", "content-type", "authorization", "accept-encoding", "user-agent"),
        IDEMPOTENCY_HEADER.lower(),
    }
)
_COMPLEX_KEYWORDS = frozenset(
    {"anyOf", "oneOf", "allOf", "not", "if", "nullable", "patternProperties", "minProperties"}
)


class _ParameterSpec(NamedTuple):
    parameter: HttpParameter
    schema: Mapping[str, Any]
    is_required: bool


def build_route(outline: Outline, operation: OpenApiOperation, prefix: str) -> HttpRoute:
    """The route to an operation; its name begins with `prefix`."""
    called = operation.key if to_tool_name(operation.key) else operation.method_and_path
    name = to_tool_name(add_prefix(prefix, called))
    if not name:
        raise DocumentUnreadable("no name can be made of its operationId; give it one with letters")
    warnings: list[str] = []
    if operation.written.get("deprecated") is True:
        warnings.append("it is marked as deprecated")
    specs = _read_parameters(outline, operation, warnings)
    body_spec = read_request_body(outline, operation, warnings)
    arguments = unique_argument_names([(spec.parameter.name, spec.parameter.place) for spec in specs])
    parameters = [
        replace(
            spec.parameter,
            argument=argument,
            reserved=spec.parameter.reserved or f"{{+{spec.parameter.name}}}" in operation.path,
        )
        for spec, argument in zip(specs, arguments, strict=True)
    ]
    body_argument = BODY_ARGUMENT if BODY_ARGUMENT not in arguments else "request_body"
    schema = _build_schema(arguments, specs, body_argument, body_spec)
    try:
        resolved = resolve_arguments(schema, outline.document)
    except ToolDefinitionError as error:
        raise DocumentUnreadable(str(error)) from error
    server_url = outline.server_url(operation)
    parameters += [
        HttpParameter(name, name, "path", "simple", explode=False, reserved=True)
        for name in placeholder_names(server_url)
    ]
    address = server_url + operation.path.replace("{+", "{")
    _check_path(operation, address, parameters)
    body = None
    checked = resolved.schema
    if body_spec is not None:
        body, checked = _spread_body(body_spec.media_type, body_argument, checked)
        body = replace(body, forms=body_spec.forms, files=body_spec.files)
    return HttpRoute(
        operation=operation.key,
        name=name,
        description=_build_description(outline, operation),
        method=operation.method,
        address=address,
        values=tuple(parameters),
        body=body,
        checked=checked,
        reported=(*warnings, *resolved.warnings, *build_told_schema(checked).warnings),
    )


def _check_path(operation: OpenApiOperation, address: str, parameters: list[HttpParameter]) -> None:
    path_names = {parameter.name for parameter in parameters if parameter.place == "path"}
    missing = [name for name in placeholder_names(address) if name not in path_names]
    if missing:
        raise DocumentUnreadable(f"its path asks for {missing[0][:60]!r}, which is no parameter")
    if "?" in operation.path or "#" in operation.path:
        raise DocumentUnreadable(
            "its path is none: a ? or # stands in it, and what is behind that belongs to its parameters"
        )


def _build_description(outline: Outline, operation: OpenApiOperation) -> str:
    parts = [operation.written.get(part) for part in ("summary", "description")]
    texts = [neutralize(part).rstrip(".") for part in parts if isinstance(part, str) and part.strip()]
    if len(texts) == 2 and texts[1].startswith(texts[0]):
        texts.pop(0)
    text = ". ".join(text for text in texts if text)
    if not text:
        text = f"{operation.method_and_path} of {neutralize(outline.title()) or 'the service'}"
    if len(text) > MAX_DESCRIPTION_CHARS:
        return f"{text[:MAX_DESCRIPTION_CHARS].rstrip()}…"
    return f"{text}."


def _read_parameters(
    outline: Outline, operation: OpenApiOperation, warnings: list[str]
) -> list[_ParameterSpec]:
    """The parameters of the path, then those of the operation, which replace them by name and location.

    What cannot be sent is reported in `warnings`.
    """
    parameters: dict[tuple[str, str], Mapping[str, Any]] = {}
    for owner in (operation.shared, operation.written):
        for raw_parameter in as_list(owner.get("parameters")):
            parameter = outline.resolve(raw_parameter)
            if isinstance(parameter, Mapping):
                parameters[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    specs = [
        _read_parameter(outline, parameter, warnings)
        for (name, location), parameter in parameters.items()
        if locate_parameter(location, name) not in outline.secret_parameters
    ]
    return [spec for spec in specs if spec is not None]


def _read_parameter(outline: Outline, raw: Mapping[str, Any], warnings: list[str]) -> _ParameterSpec | None:
    from openapi_pydantic.v3.v3_1 import Parameter
    from pydantic import ValidationError

    frame = {
        key: value for key, value in raw.items() if key not in ("schema", "content", "example", "examples")
    }
    try:
        parsed = Parameter.model_validate(frame)
    except ValidationError as error:
        raise DocumentUnreadable(
            f"its parameter {str(raw.get('name'))[:60]!r} is not correct ({_format_first_error(error)})"
        ) from None
    location: Any = parsed.param_in.value
    is_required = parsed.required or location == "path"
    if location == "cookie" and parsed.name in outline.settings.cookies:
        return None
    omission = _find_omission(parsed.name, location, is_required=is_required)
    if omission is not None:
        warnings.append(f"the {location} {parsed.name[:60]} is left out: {omission}")
        return None
    parameter = _build_parameter(location, parsed, raw)
    raw_schema, as_json = _content_schema(outline, raw)
    if as_json:
        parameter = replace(parameter, reserved=False, as_json=True)
    schema = dict(as_mapping(raw_schema))
    if parsed.description:
        schema["description"] = parsed.description
    return _ParameterSpec(parameter, schema, is_required)


def _find_omission(name: str, location: str, *, is_required: bool) -> str | None:
    """Why a parameter is not sent; None: it is. Raises DocumentUnreadable for a cookie that is required."""
    if location == "cookie":
        if is_required:
            raise DocumentUnreadable(f"it needs the cookie {name[:60]!r}, and {COOKIES_ADVICE}")
        return COOKIES_ADVICE
    if location == "header" and name.lower() in RESERVED_HEADERS:
        return "the gateway sets it"
    return None


def _build_parameter(location: ParameterLocation, parsed: Any, raw: Mapping[str, Any]) -> HttpParameter:
    style = parsed.style or DEFAULT_STYLES[location]
    if style not in STYLES[location]:
        raise DocumentUnreadable(
            f"its parameter {parsed.name[:60]!r} has the style {style[:20]!r}, "
            f"which {location} values do not have"
        )
    if location == "header" and not HEADER_NAME_PATTERN.fullmatch(parsed.name):
        raise DocumentUnreadable(f"its header {parsed.name[:60]!r} has a name that no header can have")
    explode = style in ("form", "deepObject")
    if isinstance(raw.get("explode"), bool):
        explode = bool(parsed.explode)
    reserved = raw.get("allowReserved") is True or (location == "path" and _spans_segments(raw))
    return HttpParameter(parsed.name, parsed.name, location, style, explode, reserved)


def _spans_segments(raw: Mapping[str, Any]) -> bool:
    """Whether a value of a path has slashes of its own, such as `projects/one` of Google's."""
    pattern = as_mapping(raw.get("schema")).get("pattern")
    return isinstance(pattern, str) and "/" in pattern.replace("[^/]", "")


def _content_schema(outline: Outline, raw: Mapping[str, Any]) -> tuple[object, bool]:
    """The schema of a parameter, and whether it is written as JSON because it stands under `content`."""
    content = as_mapping(raw.get("content"))
    if "schema" in raw or not content:
        return raw.get("schema"), False
    media_type, raw_media = next(iter(content.items()))
    schema = as_mapping(outline.resolve(raw_media)).get("schema")
    return schema, "json" in str(media_type)


def _build_schema(
    arguments: list[str], specs: list[_ParameterSpec], body_argument: str, body: RequestBody | None
) -> dict[str, Any]:
    """One object of all arguments, the body among them."""
    properties: dict[str, Any] = {}
    required = []
    for argument, spec in zip(arguments, specs, strict=True):
        properties[argument] = spec.schema
        if spec.is_required:
            required.append(argument)
    if body is not None and body.schema is not None:
        properties[body_argument] = body.schema
        if body.is_required:
            required.append(body_argument)
    schema = {"type": "object", "properties": properties}
    if required:
        return {**schema, "required": required}
    return schema


def _spread_body(
    media_type: str, body_argument: str, schema: Mapping[str, Any]
) -> tuple[Body, dict[str, Any]]:
    """The body with its fields as separate arguments, where its shape allows, and the schema for that."""
    body_schema = schema["properties"].get(body_argument)
    is_required = body_argument in schema.get("required", ())
    if not body_schema or not _is_plain_object(body_schema):
        return Body(media_type, body_argument, None, is_required), dict(schema)
    outer_names = [name for name in schema["properties"] if name != body_argument]
    field_names = [
        f"{name}_{BODY_ARGUMENT}" if name in outer_names else name for name in body_schema["properties"]
    ]
    arguments = unique_argument_names([(name, BODY_ARGUMENT) for name in (*outer_names, *field_names)])
    fields = dict(zip(arguments[len(outer_names) :], body_schema["properties"], strict=True))
    spread = _inline_body(schema, body_schema, body_argument, fields, is_required=is_required)
    return Body(media_type, None, fields, is_required), spread


def _is_plain_object(schema: Mapping[str, Any]) -> bool:
    """Whether it is an object that its properties describe completely."""
    return (
        schema.get("type", "object") == "object"
        and bool(schema.get("properties"))
        and not _COMPLEX_KEYWORDS & set(schema)
        and schema.get("additionalProperties") in (None, False, True)
    )


def _inline_body(
    outer: Mapping[str, Any],
    inner: Mapping[str, Any],
    body_argument: str,
    fields: Mapping[str, str],
    *,
    is_required: bool,
) -> dict[str, Any]:
    """The outer schema with the properties of the inner one instead of the body's argument."""
    properties = {name: schema for name, schema in outer["properties"].items() if name != body_argument}
    properties |= {argument: inner["properties"][name] for argument, name in fields.items()}
    required = [name for name in outer.get("required", ()) if name != body_argument]
    if is_required:
        required += [argument for argument, name in fields.items() if name in inner.get("required", ())]
    joined = {key: value for key, value in outer.items() if key != "required"} | {"properties": properties}
    if required:
        return {**joined, "required": required}
    return joined


def _format_first_error(error: Any) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))[:60]}: {first['msg'][:80]}"
