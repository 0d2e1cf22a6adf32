"""A call of a service as a value: its address, its arguments and where each of them goes.

Pure. A route holds no secret and is stored as JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx

from tools.base import ToolError
from tools.http.service import SAFE_METHODS, parse_url
from tools.http.styles import HttpParameter, placeholder_names
from tools.net.policy import host_of
from tools.schemas.resolve import resolve_arguments
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema

SECRET_PLACEHOLDER = "secret:"  # noqa: S105 - begins a {name} of an address that a secret fills in
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request, sent as `media`.

    `whole` is the one argument that is the body; or `fields` are the fields of an object, by argument.
    Unless it is `required`, nothing is sent when none of its arguments is given.
    `forms` are the parts of a form, by name, that are not encoded in the default way, `files` the media types
    of those that are files.
    """

    media: str
    whole: str | None = None
    fields: Mapping[str, str] | None = None
    required: bool = True
    forms: Mapping[str, HttpParameter] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """One call of a service.

    `operation` is what it was picked by, `address` an absolute URL with `{names}` in its path.
    `checked` is the schema that arguments are checked against.
    `reported` is what an admin should know, a sentence each.
    """

    operation: str
    name: str
    description: str
    method: str
    address: str
    values: tuple[HttpParameter, ...]
    body: Body | None
    checked: dict[str, Any]
    reported: tuple[str, ...] = ()

    @property
    def url(self) -> httpx.URL:
        """The address up to where arguments begin."""
        return httpx.URL(self.address.partition("{")[0])

    @property
    def host(self) -> str:
        """The host that is called, with its port where that is not the usual one."""
        return host_of(self.url)

    def describe_places(self, arguments: Iterable[str]) -> dict[str, str]:
        """Where the values of these arguments are sent, by argument, in words."""
        places = {value.argument: value.describe_place() for value in self.values}
        if self.body is not None:
            body = f"in the body ({self.body.media})"
            places |= {argument: f"{body} as {name}" for argument, name in (self.body.fields or {}).items()}
            if self.body.whole is not None:
                places[self.body.whole] = f"as the body ({self.body.media})"
        return {name: places[name] for name in arguments if name in places}

    def as_json(self) -> dict[str, Any]:
        """The route as JSON, to be stored; `route_from_json` restores it."""
        return asdict(self)


def route_from_json(data: Mapping[str, Any]) -> HttpRoute:
    """The route that was stored as this JSON."""
    fields = {
        **data,
        "values": tuple(HttpParameter(**value) for value in data["values"]),
        "body": _body_from_json(data["body"]),
        "reported": tuple(data["reported"]),
    }
    return HttpRoute(**fields)


def _body_from_json(data: Mapping[str, Any] | None) -> Body | None:
    if data is None:
        return None
    forms = {name: HttpParameter(**value) for name, value in data.get("forms", {}).items()}
    return Body(**{**data, "forms": forms})


def build_endpoint_route(
    name: str, description: str, method: str, url: str, schema: Mapping[str, Any]
) -> HttpRoute:
    """The route to one plain endpoint.

    `url` may have `{names}` of arguments in its path. Other arguments go into the query, or into a JSON body.
    Raises ToolDefinitionError, saying what to do.
    """
    method = method.upper()
    if method not in METHODS:
        raise ToolDefinitionError(
            f"{method[:20]!r} is no method that can be used: take one of {', '.join(METHODS)}"
        )
    address, _, query = url.partition("?")
    path = check_url_template(address)
    if query:
        raise ToolDefinitionError(
            "the URL must end before its ?; what stood behind it becomes arguments of the schema"
        )
    resolved = resolve_arguments(schema)
    properties = resolved.schema["properties"]
    path_names = placeholder_names(path)
    missing = [path_name for path_name in path_names if path_name not in properties]
    if missing:
        raise ToolDefinitionError(
            f"the URL asks for {missing[0][:60]!r}, which is not described: describe a parameter of that name"
        )
    values = [HttpParameter(n, n, "path", "simple", explode=False) for n in path_names]
    other_names = [n for n in properties if n not in path_names]
    body = None
    if method in (*SAFE_METHODS, "DELETE"):
        values += [HttpParameter(n, n, "query", "form", explode=True) for n in other_names]
    else:
        body = Body("application/json", None, {n: n for n in other_names})
    checked = _with_required(resolved.schema, path_names)
    return HttpRoute(
        operation=name,
        name=name,
        description=description,
        method=method,
        address=path,
        values=tuple(values),
        body=body,
        checked=checked,
        reported=(*resolved.warnings, *build_told_schema(checked).warnings),
    )


def _with_required(schema: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    required = sorted({*schema.get("required", ()), *names})
    if required:
        return {**schema, "required": required}
    return dict(schema)


def check_url_template(address: str) -> str:
    """An address with `{names}` only in its path. Raises ToolDefinitionError."""
    head, brace, rest = address.partition("{")
    misplaced = ToolDefinitionError(
        f"{address[:100]!r} has a {{name}} outside of its path: arguments may stand there only"
    )
    if brace and head.count("/") < 3:
        raise misplaced
    try:
        url = parse_url(head)
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    if url.query:
        raise misplaced
    return head + brace + rest
