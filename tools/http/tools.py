"""The tools that routes are while their service's secrets are at hand: a call, sent and told to the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.base import Rule, Tool, ToolContext, ToolError
from tools.http.requests import build_request
from tools.http.responses import render_response
from tools.http.routes import HttpRoute
from tools.http.service import SAFE_METHODS, TIMEOUT_SECONDS, HttpService
from tools.net.policy import ENCRYPTION_ADVICE
from tools.schemas.signature import ToolDefinitionError
from tools.url_argument import find_url_argument

GRACE_SECONDS = 2.0  # seconds beyond those of an exchange, so that what it says of itself is heard


def make_route_tool(route: HttpRoute, service: HttpService) -> Tool:
    """The tool a route is. Questions (GET, HEAD) are repeatable and ask nobody; all else changes something
    and asks.

    Raises ToolDefinitionError when the route's host is not confirmed, or secrets would go there in the clear.
    """
    if route.host not in service.hosts:
        raise ToolDefinitionError(
            f"{route.name} would be asked of {route.host}, which nobody has confirmed: confirm it"
        )
    if service.credentials and service.policy.can_expose_secrets(route.url):
        raise ToolDefinitionError(f"{route.name} would send secrets unencrypted: {ENCRYPTION_ADVICE}")
    if not all(text.isascii() and text.isprintable() for text in service.credentials.auth_headers().values()):
        raise ToolDefinitionError(
            f"{route.name} has a secret that no header can carry: enter it again, in plain ASCII"
        )
    route = _drop_secret_arguments(route, service)

    async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
        answer = await service.send(build_request(route, arguments, context.key))
        try:
            return service.mask_secrets(render_response(answer, service.name, route.method))
        except ToolError as error:
            raise ToolError(service.mask_secrets(str(error))) from None

    safe = route.method in SAFE_METHODS
    return Tool(
        name=route.name,
        description=route.description,
        input_schema=route.checked,
        function=call,
        timeout=TIMEOUT_SECONDS + GRACE_SECONDS,
        repeatable=safe,
        rule=Rule() if safe else Rule("always"),
        changes=not safe,
        outside=True,
        opens=find_url_argument(route.checked, route.checked),
        source=service.name,
        address=f"{route.method} {route.address}",
        told=route.told,
    )


def _drop_secret_arguments(route: HttpRoute, service: HttpService) -> HttpRoute:
    """The route without the arguments that the service's secrets fill in: the model is not asked for them."""
    shown = {name.lower() for name in service.credentials.auth_headers()}
    filled = {
        value.argument
        for value in route.values
        if (value.place == "header" and value.name.lower() in shown)
        or (value.place == "query" and value.name in service.credentials.query)
    }
    if not filled:
        return route
    return replace(
        route,
        values=tuple(value for value in route.values if value.argument not in filled),
        checked=_drop_properties(route.checked, filled),
        told=_drop_properties(route.told, filled),
    )


def _drop_properties(schema: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    left = {
        **schema,
        "properties": {key: each for key, each in schema["properties"].items() if key not in names},
    }
    if "required" in left:
        left["required"] = [name for name in left["required"] if name not in names]
    return left
