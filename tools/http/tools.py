"""Makes tools of routes, once their service's credentials are at hand.

A call builds the request, sends it and renders the response for the model.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from tools.arguments import ArgumentsRefused, check_arguments
from tools.base import Found, Rule, Tool, ToolContext, ToolError
from tools.http.requests import build_request
from tools.http.responses import find_file, find_page_charset, find_picture, render_response
from tools.http.routes import SECRET_PLACEHOLDER, HttpRoute
from tools.http.service import SAFE_METHODS, FixedArgument, HttpResponse, HttpService
from tools.net.pages import extract_page
from tools.net.policy import ENCRYPTION_ADVICE
from tools.schemas.options import list_options
from tools.schemas.signature import ToolDefinitionError
from tools.schemas.told_schema import build_told_schema
from tools.url_argument import find_url_argument

GRACE_SECONDS = 6.0  # beyond those of an exchange: its own error arrives first, and a page is extracted
MAX_PAGE_CHARS = 200_000


def make_route_tool(route: HttpRoute, service: HttpService) -> Tool:
    """The tool of a route.

    Safe methods (GET, HEAD) are repeatable and need no approval; all others change something and always ask.
    Raises ToolDefinitionError when the route's host is not confirmed, when secrets would be sent unencrypted,
    and for a fixed argument that does not fit, or would have to be a part of another.
    """
    _check_service(route, service)
    _check_whole_body(route, service.fixed)
    fixed = _find_fixed_arguments(route, service)
    filled = frozenset({*fixed, *_find_secret_arguments(route, service)})
    checked = _drop_properties(route.checked, filled)
    fixed_values = _convert_fixed_arguments(route, fixed)
    fixed_names = frozenset(service.fixed)
    secret_names = frozenset(service.credentials.query)

    async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
        given = {name: value for name, value in arguments.items() if name not in filled}
        request = build_request(route, {**given, **fixed_values}, context.key, fixed_names, secret_names)
        response = await service.send(request)
        try:
            result = await _build_result(response, service.name, route.method)
        except ToolError as error:
            raise ToolError(service.mask_secrets(str(error))) from None
        file = find_file(response)
        text = service.mask_secrets(result.text)
        if file is None:
            return text
        if not context.delivers:
            return Found(text, result.images, has_undelivered=True)
        return Found(text, result.images, (service.mask_file(file),))

    is_safe = route.method in SAFE_METHODS
    return Tool(
        name=route.name,
        description=route.description,
        input_schema=checked,
        function=call,
        timeout=service.timeout_seconds + GRACE_SECONDS,
        repeatable=is_safe,
        rule=Rule() if is_safe else Rule("always"),
        changes=not is_safe,
        outside=True,
        opens=find_url_argument(checked, checked),
        source=service.name,
        address=f"{route.method} {route.address}",
        sends=route.describe_places(checked["properties"]),
        told=build_told_schema(checked).schema,
        fixed={
            argument.name: argument.shown
            for argument in fixed.values()
            if not argument.name.startswith(SECRET_PLACEHOLDER)
        },
    )


async def _build_result(response: HttpResponse, service_name: str, method: str) -> Found:
    """What the model reads and is shown: text, the readable part of a page, or a picture.

    Raises ToolError when the service `service_name` refused.
    """
    picture = find_picture(response)
    if picture is not None:
        return Found(f"A picture ({picture.media_type}, {len(picture.data)} bytes).", (picture,))
    text = render_response(response, service_name, method)
    charset = find_page_charset(response)
    if charset is None or method == "HEAD":
        return Found(text)
    try:
        page = await extract_page(response.body, "html", charset, MAX_PAGE_CHARS)
    except ToolError:
        return Found(text)
    return Found("\n\n".join(part for part in (page["title"], page["text"]) if part) or text)


def _check_service(route: HttpRoute, service: HttpService) -> None:
    if route.host not in service.hosts:
        raise ToolDefinitionError(
            f"{route.name} would be asked of {route.host}, which nobody has confirmed: confirm it with "
            f"`tools configure {service.name} --confirm-host {route.host}`"
        )
    if service.has_secrets and service.policy.can_expose_secrets(route.url):
        raise ToolDefinitionError(f"{route.name} would send secrets unencrypted: {ENCRYPTION_ADVICE}")
    header_texts = service.credentials.auth_headers().values()
    if not all(text.isascii() and text.isprintable() for text in header_texts):
        raise ToolDefinitionError(
            f"{route.name} has a secret that no header can carry: enter it again, in plain ASCII"
        )
    if any({*';, "\\'} & set(text) for text in service.credentials.cookies.values()):
        raise ToolDefinitionError(
            f"{route.name} has a secret that no cookie can carry: enter it again, without blanks and quotes"
        )


def _check_whole_body(route: HttpRoute, fixed_names: Collection[str]) -> None:
    """Refuse a fixed argument that is a part of the one argument which is the body: the model writes it."""
    if route.body is None or route.body.whole is None:
        return
    schema = route.checked["properties"].get(route.body.whole, {})
    for name in fixed_names:
        if _has_property(schema, name):
            raise ToolDefinitionError(
                f"{name} cannot be fixed in {route.name}, whose body the model writes: leave that tool out"
            )


def _has_property(schema: Mapping[str, Any], name: str) -> bool:
    """Whether objects of this schema, or of one of its options, have a property of this name."""
    options = list_options(schema)
    return name in schema.get("properties", ()) or any(_has_property(option, name) for option in options)


def _find_secret_arguments(route: HttpRoute, service: HttpService) -> Iterator[str]:
    """The arguments that the service's credentials fill in: the model does not give them."""
    secret_headers = {name.lower() for name in service.credentials.auth_headers()}
    for value in route.values:
        is_secret_header = value.place == "header" and value.name.lower() in secret_headers
        if is_secret_header or (value.place == "query" and value.name in service.credentials.query):
            yield value.argument


def _find_fixed_arguments(route: HttpRoute, service: HttpService) -> dict[str, FixedArgument]:
    """The arguments of a route that an admin has set, each under the model's name for it."""
    names = {value.argument: value.name for value in route.values}
    if route.body is not None:
        names |= route.body.fields or {}
    return {argument: service.fixed[name] for argument, name in names.items() if name in service.fixed}


def _convert_fixed_arguments(route: HttpRoute, fixed: Mapping[str, FixedArgument]) -> dict[str, Any]:
    """The values of fixed arguments, of the type that the service takes. Raises ToolDefinitionError."""
    properties = {
        argument: route.checked["properties"].get(argument, {})
        for argument, value in fixed.items()
        if not value.secrets  # a secret is not known when its source is looked at
    }
    texts = {argument: value.text for argument, value in fixed.items()}
    schema = {"type": "object", "properties": properties}
    typed: dict[str, Any] = {}
    try:
        if properties:
            given = {argument: texts[argument] for argument in properties}
            typed = check_arguments(Tool(route.name, route.description, schema, _refuse_call), given)
    except ArgumentsRefused as error:
        raise ToolDefinitionError(f"a fixed argument does not fit: {error}".rstrip(".")) from None
    return texts | typed


async def _refuse_call(arguments: Mapping[str, Any], context: ToolContext) -> NoReturn:
    raise ToolError("This is not called.")


def _drop_properties(schema: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    if not names:
        return dict(schema)
    reduced = {
        **schema,
        "properties": {key: inner for key, inner in schema["properties"].items() if key not in names},
    }
    if "required" in reduced:
        reduced["required"] = [name for name in reduced["required"] if name not in names]
    return reduced
