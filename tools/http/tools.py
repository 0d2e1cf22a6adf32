"""The tools that routes are while their service's secrets are at hand: a call, sent and told to the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.base import Rule, Tool, ToolContext, ToolError
from tools.http.requests import asked_of
from tools.http.responses import told
from tools.http.routes import Route
from tools.http.service import SAFE, SECONDS, Service
from tools.net.policy import ENCRYPTED
from tools.schemas.signature import ToolDefinitionError
from tools.url_argument import opens

GRACE = 2.0  # seconds beyond those of an exchange, so that what it says of itself is heard


def tool_of(route: Route, service: Service) -> Tool:
    """The tool a route is. Questions (GET, HEAD) are repeatable and ask nobody; all else changes something
    and asks.

    Raises ToolDefinitionError when the route's host is not confirmed, or secrets would go there in the clear.
    """
    if route.host not in service.hosts:
        raise ToolDefinitionError(
            f"{route.name} would be asked of {route.host}, which nobody has confirmed: confirm it"
        )
    if service.secrets and service.reach.exposes(route.url):
        raise ToolDefinitionError(f"{route.name} would send secrets unencrypted: {ENCRYPTED}")
    if not all(text.isascii() and text.isprintable() for text in service.secrets.shown().values()):
        raise ToolDefinitionError(
            f"{route.name} has a secret that no header can carry: enter it again, in plain ASCII"
        )
    route = _without_secrets(route, service)

    async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
        answer = await service.send(asked_of(route, arguments, context.key))
        try:
            return service.masked(told(answer, service.name, route.method))
        except ToolError as error:
            raise ToolError(service.masked(str(error))) from None

    safe = route.method in SAFE
    return Tool(
        name=route.name,
        description=route.description,
        input_schema=route.checked,
        function=call,
        timeout=SECONDS + GRACE,
        repeatable=safe,
        rule=Rule() if safe else Rule("always"),
        changes=not safe,
        outside=True,
        opens=opens(route.checked, route.checked),
        source=service.name,
        address=f"{route.method} {route.address}",
        told=route.told,
    )


def _without_secrets(route: Route, service: Service) -> Route:
    """The route without the arguments that the service's secrets fill in: the model is not asked for them."""
    shown = {name.lower() for name in service.secrets.shown()}
    filled = {
        value.argument
        for value in route.values
        if (value.place == "header" and value.name.lower() in shown)
        or (value.place == "query" and value.name in service.secrets.query)
    }
    if not filled:
        return route
    return replace(
        route,
        values=tuple(value for value in route.values if value.argument not in filled),
        checked=_without(route.checked, filled),
        told=_without(route.told, filled),
    )


def _without(schema: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    left = {
        **schema,
        "properties": {key: each for key, each in schema["properties"].items() if key not in names},
    }
    if "required" in left:
        left["required"] = [name for name in left["required"] if name not in names]
    return left
