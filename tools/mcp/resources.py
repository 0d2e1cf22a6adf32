"""What a server offers beside tools: its resources and prompts, as one tool each that reads or lists them.

Their definitions stay the same whatever the server lists, so that a new resource suspends no tool.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mcp import Client
from mcp.client import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    PaginatedRequestParams,
    PaginatedResult,
    Prompt,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from pydantic import TypeAdapter

from tools.base import Found
from tools.mcp.definitions import PROMPTS_METHOD, RESOURCES_METHOD, ServerCall, ServerTool
from tools.mcp.results import to_found_contents, to_found_messages

MAX_LISTED = 200  # resources, templates or prompts
MAX_LIST_PAGES = 20
MAX_LINE_CHARS = 300

_RESOURCE_ADAPTER: TypeAdapter[ReadResourceResult | InputRequiredResult] = TypeAdapter(
    ReadResourceResult | InputRequiredResult
)
_PROMPT_ADAPTER: TypeAdapter[GetPromptResult | InputRequiredResult] = TypeAdapter(
    GetPromptResult | InputRequiredResult
)

PageT = TypeVar("PageT", bound=PaginatedResult)
ItemT = TypeVar("ItemT")


async def describe_readers(
    server: str, client: Client, ask: Callable[[str, Coroutine[Any, Any, bool]], Awaitable[bool]]
) -> list[ServerTool]:
    """The tools by which resources and prompts are read, where the server has any.

    `ask` runs a request that says whether there is what a method reads.
    """
    capabilities = client.server_capabilities
    readers: list[ServerTool] = []
    if capabilities.resources and await ask(RESOURCES_METHOD, _has_resources(client.session)):
        readers.append(_describe_resource_tool(server))
    if capabilities.prompts and await ask(PROMPTS_METHOD, _has_prompts(client.session)):
        readers.append(_describe_prompt_tool(server))
    return readers


async def _has_resources(session: ClientSession) -> bool:
    """Whether the server lists any resource, or a template of one."""
    if (await session.list_resources()).resources:
        return True
    return bool((await session.list_resource_templates()).resource_templates)


async def _has_prompts(session: ClientSession) -> bool:
    """Whether the server lists any prompt."""
    return bool((await session.list_prompts()).prompts)


def _describe_resource_tool(server: str) -> ServerTool:
    """The tool that reads resources, as if the server had listed it."""
    return ServerTool(
        name="read_resource",
        description=f"Reads a resource of {server}, such as a file or a record. Without a URI it lists them.",
        schema={
            "type": "object",
            "properties": {
                "uri": {
                    "type": "string",
                    "description": "Its URI, letter by letter as it was listed.",
                }
            },
        },
        read_only=True,
        idempotent=True,
        method=RESOURCES_METHOD,
    )


def _describe_prompt_tool(server: str) -> ServerTool:
    """The tool that gets prompts, as if the server had listed it."""
    return ServerTool(
        name="get_prompt",
        description=f"Gets a prompt that {server} has prepared for a task. Without a name it lists them.",
        schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Its name, as the list has it."},
                "arguments": {
                    "type": "object",
                    "description": "What the list says it takes.",
                    "additionalProperties": {"type": "string"},
                },
            },
        },
        read_only=True,
        idempotent=True,
        method=PROMPTS_METHOD,
    )


async def read_resource(
    session: ClientSession, call: ServerCall, on_progress: ProgressFnT
) -> Found | InputRequiredResult:
    """The resource at `uri`, or without one a list of them all."""
    uri = call.arguments.get("uri")
    if not uri:
        return Found(await _list_resources(session))
    request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
    answer = await session.send_request(request, _RESOURCE_ADAPTER, progress_callback=on_progress)
    if isinstance(answer, InputRequiredResult):
        return answer
    return to_found_contents(answer.contents, delivers=call.delivers)


async def get_prompt(
    session: ClientSession, call: ServerCall, on_progress: ProgressFnT
) -> Found | InputRequiredResult:
    """The prompt with this `name`, filled with `arguments`, or without a name a list of them all."""
    name = call.arguments.get("name")
    if not name:
        prompts = await _collect(session.list_prompts, lambda page: page.prompts)
        return Found(_format_list("Prompts", [_format_prompt(prompt) for prompt in prompts]))
    params = GetPromptRequestParams(name=name, arguments=call.arguments.get("arguments") or None)
    request = GetPromptRequest(params=params)
    answer = await session.send_request(request, _PROMPT_ADAPTER, progress_callback=on_progress)
    if isinstance(answer, InputRequiredResult):
        return answer
    return to_found_messages(answer.messages)


async def _list_resources(session: ClientSession) -> str:
    resources = await _collect(session.list_resources, lambda page: page.resources)
    templates = await _collect(session.list_resource_templates, lambda page: page.resource_templates)
    parts = [_format_list("Resources", [_format_resource(resource.uri, resource) for resource in resources])]
    if templates:
        lines = [_format_resource(template.uri_template, template) for template in templates]
        parts.append(_format_list("Resources whose {…} is to be filled in", lines))
    return "\n".join(parts)


async def _collect(
    list_page: Callable[..., Awaitable[PageT]], get_items: Callable[[PageT], Sequence[ItemT]]
) -> list[ItemT]:
    """The items of all pages, to a bound."""
    items: list[ItemT] = []
    cursor: str | None = None
    for _ in range(MAX_LIST_PAGES):
        page = await list_page(params=PaginatedRequestParams(cursor=cursor))
        items.extend(get_items(page))
        cursor = page.next_cursor
        if cursor is None or len(items) > MAX_LISTED:
            break
    return items


def _format_list(what: str, lines: Sequence[str]) -> str:
    """A list with its head, to a bound."""
    if not lines:
        return f"{what}: none."
    shown = list(lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        shown.append("[more are left out]")
    return "\n".join([f"{what}:", *shown])


def _format_resource(address: str, resource: Resource | ResourceTemplate) -> str:
    words = [resource.title or resource.name, resource.mime_type, resource.description]
    return _to_line([address, *words])


def _format_prompt(prompt: Prompt) -> str:
    arguments = [
        f"{argument.name}{'' if argument.required else ' (optional)'}" for argument in prompt.arguments or ()
    ]
    takes = f"takes {', '.join(arguments)}" if arguments else None
    return _to_line([prompt.name, prompt.description or prompt.title, takes])


def _to_line(parts: Sequence[str | None]) -> str:
    return " · ".join(" ".join(part.split()) for part in parts if part)[:MAX_LINE_CHARS]
