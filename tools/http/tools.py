"""Makes tools of routes, once their service's credentials are at hand.

A call builds the request, sends it and renders the response for the model.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.base import Rule, Tool, ToolContext, ToolError
from tools.http.requests import build_request
from tools.http.responses import render_response
from tools.http.routes import HttpRoute
from tools.http.service import SAFE_METHODS, HttpService
from tools.net.policy import ENCRYPTION_ADVICE
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema
from tools.url_argument import find_url_argument

GRACE_SECONDS = 2.0  # beyond those of an exchange, so that its own error arrives first


def make_route_tool(route: HttpRoute, service: HttpService) -> Tool:
    """The tool of a route.

    Safe methods (GET, HEAD) are repeatable and need no approval; all others change something and always ask.
    Raises ToolDefinitionError when the route's host is not confirmed, or secrets would be sent unencrypted.
    """
    if route.host not in service.hosts:
        raise ToolDefinitionError(
            f"{route.name} would be asked of {route.host}, which nobody has confirmed: confirm it"
        )
    if service.credentials and service.policy.can_expose_secrets(route.url):
        raise ToolDefinitionError(f"{route.name} would send secrets unencrypted: {ENCRYPTION_ADVICE}")
    header_texts = service.credentials.auth_headers().values()
    if not all(text.isascii() and text.isprintable() for text in header_texts):
        raise ToolDefinitionError(
            f"{route.name} has a secret that no header can carry: enter it again, in plain ASCII"
        )
    route = _drop_secret_arguments(route, service)

    async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
        response = await service.send(build_request(route, arguments, context.key))
        try:
            return service.mask_secrets(render_response(response, service.name, route.method))
        except ToolError as error:
            raise ToolError(service.mask_secrets(str(error))) from None

    is_safe = route.method in SAFE_METHODS
    return Tool(
        name=route.name,
        description=route.description,
        input_schema=route.checked,
        function=call,
        timeout=service.timeout_seconds + GRACE_SECONDS,
        repeatable=is_safe,
        rule=Rule() if is_safe else Rule("always"),
        changes=not is_safe,
        outside=True,
        opens=find_url_argument(route.checked, route.checked),
        source=service.name,
        address=f"{route.method} {route.address}",
        told=build_told_schema(route.checked).schema,
    )


def _drop_secret_arguments(route: HttpRoute, service: HttpService) -> HttpRoute:
    """The route without the arguments that the service's secrets fill in: the model does not give them."""
    secret_headers = {name.lower() for name in service.credentials.auth_headers()}
    filled = {
        value.argument
        for value in route.values
        if (value.place == "header" and value.name.lower() in secret_headers)
        or (value.place == "query" and value.name in service.credentials.query)
    }
    if not filled:
        return route
    return replace(
        route,
        values=tuple(value for value in route.values if value.argument not in filled),
        checked=_drop_properties(route.checked, filled),
    )


def _drop_properties(schema: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    reduced = {
        **schema,
        "properties": {key: inner for key, inner in schema["properties"].items() if key not in names},
    }
    if "required" in reduced:
        reduced["required"] = [name for name in reduced["required"] if name not in names]
    return reduced
