"""A call of a service as a value: where it goes, what it takes, which argument stands where.

Pure. A route holds no secret and is kept as JSON.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx

from tools.base import ToolError
from tools.http.service import SAFE_METHODS, parse_url
from tools.http.styles import HttpParameter, placeholder_names
from tools.net.policy import host_of
from tools.schemas.reduce import reduce_schema
from tools.schemas.signature import ToolDefinitionError

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent along, as `media`: one argument as the `whole` of it, or the `fields` of an object, by
    argument.

    Unless it is `required`, nothing is sent when none of them is given. `forms` are the parts of a form, by
    their name in it, that are written in another way than usual.
    """

    media: str
    whole: str | None = None
    fields: Mapping[str, str] | None = None
    required: bool = True
    forms: Mapping[str, HttpParameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """One call. `operation` is what it was picked by, `address` an absolute URL with `{names}` in its path.

    `checked` and `told` are the schemas of `tools.reducing`; `reported` is what an admin should know, a
    sentence each.
    """

    operation: str
    name: str
    description: str
    method: str
    address: str
    values: tuple[HttpParameter, ...]
    body: Body | None
    checked: dict[str, Any]
    told: dict[str, Any]
    reported: tuple[str, ...] = ()

    @property
    def url(self) -> httpx.URL:
        """The address up to where arguments begin."""
        return httpx.URL(self.address.partition("{")[0])

    @property
    def host(self) -> str:
        """The host it is asked of, with its port where that is not the usual one."""
        return host_of(self.url)

    def as_json(self) -> dict[str, Any]:
        """The route as JSON, to be kept; `route_from` brings it back."""
        return asdict(self)


def route_from_json(data: Mapping[str, Any]) -> HttpRoute:
    """The route that was kept as this JSON."""
    body = data["body"]
    return HttpRoute(
        **{
            **data,
            "values": tuple(HttpParameter(**value) for value in data["values"]),
            "body": None if body is None else _body_from_json(body),
            "reported": tuple(data["reported"]),
        }
    )


def _body_from_json(data: Mapping[str, Any]) -> Body:
    return Body(
        **{**data, "forms": {name: HttpParameter(**value) for name, value in data.get("forms", {}).items()}}
    )


def build_endpoint_route(
    name: str, description: str, method: str, url: str, schema: Mapping[str, Any]
) -> HttpRoute:
    """The route to one plain endpoint: what is not in the URL's path goes into the query, or into a body of
    JSON.

    `url` may have `{names}` of arguments in its path. Raises ToolDefinitionError, saying what to do.
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
    both = reduce_schema(schema)
    known = both.input_schema["properties"]
    asked = placeholder_names(path)
    missing = [one for one in asked if one not in known]
    if missing:
        raise ToolDefinitionError(
            f"the URL asks for {missing[0][:60]!r}, which is not described: describe a parameter of that name"
        )
    in_path = [HttpParameter(one, one, "path", "simple", False) for one in asked]
    rest = [one for one in known if one not in asked]
    if method in (*SAFE_METHODS, "DELETE"):
        in_query = [HttpParameter(one, one, "query", "form", True) for one in rest]
    else:
        in_query = []
    if in_query or method in (*SAFE_METHODS, "DELETE"):
        body = None
    else:
        body = Body("application/json", None, {n: n for n in rest})
    checked_, shown = (_with_required(each, asked) for each in (both.input_schema, both.model_schema))
    return HttpRoute(
        name, name, description, method, path, (*in_path, *in_query), body, checked_, shown, both.warnings
    )


def _with_required(schema: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    needed = sorted({*schema.get("required", ()), *names})
    if needed:
        return {**schema, "required": needed}
    return dict(schema)


def check_url_template(address: str) -> str:
    """An address with its `{names}` only where a path is. Raises ToolDefinitionError."""
    head, brace, rest = address.partition("{")
    outside = ToolDefinitionError(
        f"{address[:100]!r} has a {{name}} outside of its path: arguments may stand there only"
    )
    if brace and head.count("/") < 3:
        raise outside
    try:
        url = parse_url(head)
    except ToolError as error:
        raise ToolDefinitionError(str(error)) from error
    if url.query:
        raise outside
    return head + brace + rest
