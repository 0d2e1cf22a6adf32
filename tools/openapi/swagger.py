"""Turns a document of Swagger 2.0 into one of OpenAPI 3, as far as calls need it. Pure.

Gitea, Forgejo and Kubernetes publish nothing newer. What calls do not need (responses, examples) is dropped,
`definitions` stay where they are, so that references to them hold. No converter in Python is kept up; the one
everybody uses needs Node.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.http.requests import FORM_MEDIA_TYPE, MULTIPART_MEDIA_TYPE
from tools.http.routes import METHODS
from tools.openapi.values import as_list, as_mapping

CONVERTED_VERSION = "3.0.3"
KEPT_METHODS = (*map(str.lower, METHODS), "options")
DEFAULT_FORMAT = "csv"
# What stands beside the name of a parameter and describes its value.
SCHEMA_KEYWORDS = (
    *("type", "format", "items", "default", "enum", "maximum", "exclusiveMaximum", "minimum"),
    *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
    "multipleOf",
)
STYLES: Mapping[str, Mapping[str, Any]] = {
    "csv": {"style": "form", "explode": False},
    "multi": {"style": "form", "explode": True},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
}
MAX_REFERENCE_HOPS = 8

Values = Mapping[str, Any]


def convert_swagger(document: Values) -> dict[str, Any]:
    """The document as OpenAPI 3; parts that are not as they should be are left as they are."""
    paths = as_mapping(document.get("paths"))
    schemes = as_mapping(document.get("securityDefinitions"))
    return {
        **{key: document[key] for key in ("info", "security", "definitions", "tags") if key in document},
        "openapi": CONVERTED_VERSION,
        "servers": _convert_servers(document),
        "paths": {path: _convert_path(document, item) for path, item in paths.items()},
        "components": {
            "securitySchemes": {name: _convert_scheme(scheme) for name, scheme in schemes.items()}
        },
    }


def _convert_servers(document: Values) -> list[dict[str, str]]:
    base_path = str(document.get("basePath") or "/")
    host = document.get("host")
    if not host:
        return [{"url": base_path}]
    schemes = as_list(document.get("schemes"))
    if not schemes:
        return [{"url": f"//{host}{base_path}"}]
    scheme = "https" if "https" in schemes else str(schemes[0])
    return [{"url": f"{scheme}://{host}{base_path}"}]


def _convert_scheme(scheme: object) -> object:
    if as_mapping(scheme).get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    return scheme


def _convert_path(document: Values, item: object) -> object:
    if not isinstance(item, Mapping):
        return item
    shared = list(_resolve_parameters(document, item.get("parameters")))
    converted: dict[str, Any] = {key: value for key, value in item.items() if key == "$ref"}
    for method in KEPT_METHODS:
        operation = item.get(method)
        if isinstance(operation, Mapping):
            converted[method] = _convert_operation(document, operation, shared)
    return converted


def _convert_operation(document: Values, operation: Values, shared: Sequence[Values]) -> dict[str, Any]:
    own = list(_resolve_parameters(document, operation.get("parameters")))
    parameters = {(str(each.get("in")), str(each.get("name"))): each for each in (*shared, *own)}
    kept = ("operationId", "summary", "description", "deprecated", "security")
    converted: dict[str, Any] = {key: operation[key] for key in kept if key in operation}
    plain = [each for (place, _), each in parameters.items() if place not in ("body", "formData")]
    converted["parameters"] = [_convert_parameter(each) for each in plain]
    media_types = [str(kind) for kind in as_list(operation.get("consumes", document.get("consumes")))]
    body = next((each for (place, _), each in parameters.items() if place == "body"), None)
    fields = [each for (place, _), each in parameters.items() if place == "formData"]
    if body is not None:
        content = {kind: {"schema": body.get("schema", {})} for kind in media_types or ["application/json"]}
        converted["requestBody"] = {"required": body.get("required") is True, "content": content}
    elif fields:
        converted["requestBody"] = _convert_form(fields, media_types)
    return converted


def _resolve_parameters(document: Values, parameters: object) -> Iterator[Values]:
    """Parameters with references followed; those that lead nowhere stay as they are and are refused later."""
    for parameter in as_list(parameters):
        yield from _resolve_parameter(document, parameter)


def _resolve_parameter(document: Values, parameter: object) -> Iterator[Values]:
    for _ in range(MAX_REFERENCE_HOPS):
        if not isinstance(parameter, Mapping):
            return
        reference = parameter.get("$ref")
        known = as_mapping(document.get("parameters"))
        name = str(reference).removeprefix("#/parameters/").replace("~1", "/").replace("~0", "~")
        if reference is None or name not in known:
            yield parameter
            return
        parameter = known[name]


def _convert_parameter(parameter: Values) -> dict[str, Any]:
    kept = ("$ref", "name", "in", "description", "required", "allowEmptyValue")
    converted: dict[str, Any] = {key: parameter[key] for key in kept if key in parameter}
    converted["schema"] = _build_schema(parameter)
    if parameter.get("type") == "array" and parameter.get("in") == "query":
        converted |= STYLES.get(str(parameter.get("collectionFormat", DEFAULT_FORMAT)), {})
    return converted


def _build_schema(parameter: Values) -> dict[str, Any]:
    schema = {key: parameter[key] for key in SCHEMA_KEYWORDS if key in parameter}
    if schema.get("type") == "file":
        return {"type": "string", "format": "binary"}
    return schema


def _convert_form(fields: Sequence[Values], media_types: Sequence[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    encoding: dict[str, Any] = {}
    for each in fields:
        name = str(each.get("name"))
        properties[name] = _build_schema(each)
        if isinstance(each.get("description"), str):
            properties[name]["description"] = each["description"]
        if each.get("type") == "array":
            encoding[name] = STYLES.get(str(each.get("collectionFormat", DEFAULT_FORMAT)), {})
    required = [str(each.get("name")) for each in fields if each.get("required") is True]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    has_file = any(each.get("type") == "file" for each in fields)
    media_type = FORM_MEDIA_TYPE
    if has_file or (MULTIPART_MEDIA_TYPE in media_types and FORM_MEDIA_TYPE not in media_types):
        media_type = MULTIPART_MEDIA_TYPE
    return {"required": bool(required), "content": {media_type: {"schema": schema, "encoding": encoding}}}
