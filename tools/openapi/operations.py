"""Makes a route of one operation: its parameters and body as one object of arguments, and where each of them
goes.

Pure; runs in a killable process. Raises Unreadable for an operation that cannot be called, saying why.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.http.requests import FORM, KEY
from tools.http.routes import Body, Route
from tools.http.styles import STYLES, Place, Value, names_in
from tools.openapi.loader import Unreadable
from tools.openapi.names import argument_names, tool_name
from tools.openapi.outline import Operation, Outline
from tools.safety.injection import harmless
from tools.schemas.reduce import Reduced, reduced
from tools.schemas.signature import ToolDefinitionError

DESCRIPTION = 500  # characters
BODY = "body"
SENT = "JSON, forms and text, all that a model can write, are sent"
NO_COOKIES = (
    "cookies are not sent: they are somebody's login in a browser; see whether a key in a header does"
)
# Set by whoever sends a request; a document may name them, an argument never fills them.
OURS = frozenset(
    {
        *(
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "cookie",
        ),
        *("accept", "content-type", "authorization", "accept-encoding", "user-agent", KEY.lower()),
    }
)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")

Wanted = tuple[Value, Mapping[str, Any], bool]  # a value, its schema, and whether it is required


def route_of(outline: Outline, operation: Operation, prefix: str) -> Route:
    """The route to an operation; its name begins with `prefix`."""
    name = tool_name(f"{prefix}{operation.key}") or tool_name(f"{prefix}{operation.place}")
    if not name:
        raise Unreadable("no name can be made of its operationId; give it one with letters")
    if operation.written.get("deprecated") is True:
        reported = ["it is marked as deprecated"]
    else:
        reported = []
    wanted = _parameters(outline, operation, reported)
    media, body, body_required = _body(outline, operation, reported)
    names = argument_names([(value.name, value.place) for value, _, _ in wanted])
    values = [_named(value, name) for (value, _, _), name in zip(wanted, names, strict=True)]
    whole = BODY if BODY not in names else "request_body"
    schema = _schema(names, wanted, (whole, body, body_required))
    try:
        both = reduced(schema, outline.document)
    except ToolDefinitionError as error:
        raise Unreadable(str(error)) from error
    address = outline.server(operation) + operation.path
    missing = [one for one in names_in(address) if one not in {v.name for v in values if v.place == "path"}]
    if missing or "?" in operation.path or "#" in operation.path:
        raise Unreadable(
            f"its path asks for {missing[0][:60]!r}, which is no parameter"
            if missing
            else "its path is none: a ? or # stands in it, and what is behind that belongs to its parameters"
        )
    place, checked, told = (None, both.checked, both.schema) if media is None else _spread(media, whole, both)
    if place is not None and media == FORM:
        place = replace(place, forms=_forms(outline, operation))
    return Route(
        operation.key,
        name,
        _description(outline, operation),
        operation.method,
        address,
        tuple(values),
        place,
        checked,
        told,
        (*reported, *both.reported),
    )


def _description(outline: Outline, operation: Operation) -> str:
    parts = [operation.written.get(part) for part in ("summary", "description")]
    texts = [harmless(part).rstrip(".") for part in parts if isinstance(part, str) and part.strip()]
    if len(texts) == 2 and texts[1].startswith(texts[0]):
        texts.pop(0)
    text = (
        ". ".join(text for text in texts if text)
        or f"{operation.place} of {harmless(outline.title()) or 'the service'}"
    )
    if len(text) > DESCRIPTION:
        return f"{text[:DESCRIPTION].rstrip()}…"
    return f"{text}."


def _parameters(outline: Outline, operation: Operation, reported: list[str]) -> list[Wanted]:
    """Those of the path and of the operation, which come before them; what cannot be sent is reported."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for place in (operation.shared, operation.written):
        written = place.get("parameters")
        for each in written if isinstance(written, list) else []:
            parameter = outline.followed(each)
            if isinstance(parameter, Mapping):
                found[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    wanted = [_parameter(outline, parameter, reported) for parameter in found.values()]
    return [each for each in wanted if each is not None]


def _parameter(outline: Outline, written: Mapping[str, Any], reported: list[str]) -> Wanted | None:
    from openapi_pydantic.v3.v3_1 import Parameter
    from pydantic import ValidationError

    frame = {
        key: each for key, each in written.items() if key not in ("schema", "content", "example", "examples")
    }
    try:
        read = Parameter.model_validate(frame)
    except ValidationError as error:
        raise Unreadable(
            f"its parameter {str(written.get('name'))[:60]!r} is not correct ({_first(error)})"
        ) from None
    place: Any = read.param_in.value
    required = read.required or place == "path"
    if place == "cookie" or (place == "header" and read.name.lower() in OURS):
        if required and place == "cookie":
            raise Unreadable(f"it needs the cookie {read.name[:60]!r}, and {NO_COOKIES}")
        if place == "cookie":
            why = "cookies are not sent"
        else:
            why = "it is the house's to set"
        reported.append(f"the {place} {read.name[:60]} is left out: {why}")
        return None
    value = _value(place, read, written)
    schema, as_json = _of_content(outline, written)
    if as_json:
        value = Value(value.argument, value.name, value.place, value.style, value.explode, as_json=True)
    described = {"description": read.description} if read.description else {}
    return value, {**(schema if isinstance(schema, Mapping) else {}), **described}, required


def _value(place: Place, read: Any, written: Mapping[str, Any]) -> Value:
    style = read.style or ("form" if place == "query" else "simple")
    if style not in STYLES[place]:
        raise Unreadable(
            f"its parameter {read.name[:60]!r} has the style {style[:20]!r}, which {place} values do not have"
        )
    if place == "header" and not _TOKEN.fullmatch(read.name):
        raise Unreadable(f"its header {read.name[:60]!r} has a name that no header can have")
    if isinstance(written.get("explode"), bool):
        explode = bool(read.explode)
    else:
        explode = style in ("form", "deepObject")
    return Value(read.name, read.name, place, style, explode, bool(written.get("allowReserved") is True))


def _of_content(outline: Outline, written: Mapping[str, Any]) -> tuple[object, bool]:
    content = written.get("content")
    if "schema" in written or not isinstance(content, Mapping) or not content:
        return written.get("schema"), False
    media, inner = next(iter(content.items()))
    inner = outline.followed(inner)
    return (inner.get("schema") if isinstance(inner, Mapping) else None), "json" in str(media)


def _body(outline: Outline, operation: Operation, reported: list[str]) -> tuple[str | None, object, bool]:
    """Media type, schema and whether there must be one; no media type: none is sent, which is reported."""
    written = outline.followed(operation.written.get("requestBody"))
    content = written.get("content") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping) or not (content or written.get("required") is True):
        return None, None, False
    if isinstance(content, Mapping):
        kinds = [str(kind) for kind in content]
    else:
        kinds = []
    media = next((kind for fits in (_is_json, _is_form, _is_text) for kind in kinds if fits(kind)), None)
    required = written.get("required") is True
    if media is None or operation.method in ("GET", "HEAD"):
        what = f"{', '.join(kinds)[:80] or 'of no kind'}; {SENT}"
        if media is None:
            why = what
        else:
            why = f"that of a {operation.method}, which servers may ignore; it is not sent"
        if required:
            raise Unreadable(f"its body is {why}")
        reported.append(f"its body is left out: it is {why}")
        return None, None, False
    if isinstance(content, Mapping):
        inner = outline.followed(content[media])
    else:
        inner = None
    schema = inner.get("schema", {}) if isinstance(inner, Mapping) else {}
    if "*" in media:
        sent = "application/json"
    else:
        sent = media.partition(";")[0].strip()
    return sent, schema, required


def _forms(outline: Outline, operation: Operation) -> dict[str, Value]:
    """The parts of a form whose way of being written the document names; what it says of files and headers is
    none.
    """
    body: Any = outline.followed(operation.written.get("requestBody"))
    inner: Any = outline.followed(next(each for kind, each in body["content"].items() if _is_form(str(kind))))
    written = inner.get("encoding") if isinstance(inner, Mapping) else None
    found = {}
    for name, said in written.items() if isinstance(written, Mapping) else ():
        style = said.get("style", "form") if isinstance(said, Mapping) else None
        if isinstance(style, str) and style in STYLES["query"]:
            explode = said.get("explode", style in ("form", "deepObject")) is True
            as_json = "style" not in said and "explode" not in said and "json" in str(said.get("contentType"))
            found[str(name)] = Value(str(name), str(name), "query", style, explode, as_json=as_json)
    return found


def _is_json(kind: str) -> bool:
    plain = kind.partition(";")[0].strip().lower()
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")


def _is_form(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == FORM


def _is_text(kind: str) -> bool:
    return bool(re.fullmatch(r"text/[a-z.+-]+", kind.partition(";")[0].strip().lower()))


def _schema(names: list[str], wanted: list[Wanted], body: tuple[str, object, bool]) -> dict[str, Any]:
    properties: dict[str, Any] = {name: schema for name, (_, schema, _) in zip(names, wanted, strict=True)}
    required = [name for name, (_, _, needed) in zip(names, wanted, strict=True) if needed]
    whole, schema, needed = body
    if schema is not None:
        properties[whole] = schema
        required += [whole] if needed else []
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _spread(media: str, whole: str, both: Reduced) -> tuple[Body, dict[str, Any], dict[str, Any]]:
    """The body and both schemas: an object's properties become arguments of their own where its shape allows."""
    inner = both.checked["properties"].get(whole)
    told = both.schema["properties"].get(whole, {})
    needed = whole in both.checked.get("required", ())
    if (
        not inner
        or not _is_plain(inner)
        or not set(inner.get("properties", ())) <= set(told.get("properties", ()))
    ):
        return Body(media, whole, None, needed), both.checked, both.schema
    taken = [(name, BODY) for name in both.checked["properties"] if name != whole]
    wanted = [(f"{name}_{BODY}" if (name, BODY) in taken else name, BODY) for name in inner["properties"]]
    fields = dict(zip(argument_names([*taken, *wanted])[len(taken) :], inner["properties"], strict=True))
    return (
        Body(media, None, fields, needed),
        _joined(both.checked, inner, whole, fields, needed=needed),
        _joined(both.schema, told, whole, fields, needed=needed),
    )


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether it is an object that its properties say all about."""
    return (
        schema.get("type", "object") == "object"
        and bool(schema.get("properties"))
        and not {"anyOf", "oneOf", "allOf", "not", "if", "nullable", "patternProperties", "minProperties"}
        & set(schema)
        and schema.get("additionalProperties") in (None, False, True)
    )


def _joined(
    outer: Mapping[str, Any], inner: Mapping[str, Any], whole: str, fields: Mapping[str, str], *, needed: bool
) -> dict[str, Any]:
    properties = {name: each for name, each in outer["properties"].items() if name != whole}
    properties |= {argument: inner["properties"][name] for argument, name in fields.items()}
    required = [name for name in outer.get("required", ()) if name != whole]
    if needed:
        required += [argument for argument, name in fields.items() if name in inner.get("required", ())]
    joined = {key: each for key, each in outer.items() if key != "required"} | {"properties": properties}
    if required:
        return {**joined, "required": required}
    return joined


def _named(value: Value, argument: str) -> Value:
    return Value(argument, value.name, value.place, value.style, value.explode, value.reserved, value.as_json)


def _first(error: Any) -> str:
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))[:60]}: {found['msg'][:80]}"
