"""Errands that add tools: an OpenAPI document that is looked at, operations of it, one plain endpoint, an MCP
server at a URL. A chat never starts programs, and never hears secrets.
"""

import time
from collections.abc import Awaitable, Callable, Mapping

from bot.db.engine import Database, Transaction
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.telegram.commands import operation_picker as picking
from bot.telegram.commands.long_text import build_parts
from bot.telegram.commands.tool_tasks import FinishTask, ToolTask
from bot.tool_registry import add_source as adding
from bot.tool_registry import formatting as words
from bot.tool_registry import openapi_sources as documents
from bot.tool_registry import previews as offers
from bot.tool_registry.add_source import AddSourceResult
from bot.tool_registry.admin_actions import AdminAction
from bot.tool_registry.encryption import SecretBox
from bot.tool_registry.endpoint_params import build_parameter_schema, suggest_name
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.previews import SourcePreview, SourceRequest
from bot.tool_registry.tool_info import BuiltinTools
from bot.usage.plain_text import escape_for_terminal

HOW_TO = (
    "Use /tools add URL [NAME] for an OpenAPI document, /tools add mcp URL [NAME] for an MCP server, or\n"
    "/tools add endpoint NAME GET https://api.example.com/weather/{city}\n"
    "The weather of a city.\n"
    "city: the city's name\n"
    "days (integer, optional): how many days\n"
    "Programs and files are added on the machine: canvasgram tools add --help"
)


class AddToolTasks:
    """What adds them; `own` are the house's own tools."""

    def __init__(self, database: Database, tool_settings: ToolSettings, builtin_tools: BuiltinTools) -> None:
        self._database = database
        self._tool_settings = tool_settings
        self._builtin_tools = builtin_tools

    def get_handlers(self) -> Mapping[str, Callable[[ToolTask], Awaitable[FinishTask]]]:
        """The errands, by what is to be done."""
        return {"add": self._add_source, "pick": self._pick_operations}

    async def _add_source(self, task: ToolTask) -> FinishTask:
        head, *below = task.args.splitlines()
        kind, *rest = head.split()
        if kind.lower() == "mcp" and rest:
            wish = self._build_source_request(rest[0], rest[1] if len(rest) > 1 else "")
            return self._finish_adding(task, await offers.preview_server(wish, {}, is_remote=True))
        if kind.lower() == "endpoint" and len(rest) == 3 and below:
            name, method, address = rest
            return self._finish_adding(
                task,
                offers.preview_endpoint(
                    self._build_source_request(address, name),
                    method,
                    below[0].strip(),
                    build_parameter_schema(below[1:]),
                ),
            )
        if "://" not in kind or below:
            raise ChangeRefused(HOW_TO)
        return await self._add_document(
            task, self._build_source_request(kind, rest[0] if rest else ""), rest[1:]
        )

    async def _add_document(
        self, task: ToolTask, request: SourceRequest, operations: list[str]
    ) -> FinishTask:
        """A document: kept as a source without tools, to be picked from; with operations named, these are
        added.
        """
        looked = await documents.preview_document(request, {})
        chosen = documents.resolve_operations(looked.source, operations)
        if chosen and not documents.find_unconfirmed_hosts(looked.source, chosen):
            return self._finish_adding(
                task,
                await documents.preview_operations(
                    looked.source, looked.document, chosen, request.private_hosts
                ),
            )
        source = documents.with_ticked_operations(looked.source, chosen)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await adding.register_source(self._build_admin_action(task, tx), SourcePreview(source, ()))
            page = picking.build_operation_page(source, 0)
            if looked.warnings:
                return (*build_parts([escape_for_terminal(one) for one in looked.warnings]), page)
            return (page,)

        return finish

    async def _pick_operations(self, task: ToolTask) -> FinishTask:
        name, *operations = task.args.split()
        source = await self._load_source(name)
        if not operations:
            raise ChangeRefused(
                "Use /tools pick NAME, then numbers of its list, names of operations, or all."
            )
        chosen = documents.resolve_operations(source, operations)
        async with self._database.read_transaction() as tx:
            secrets = await SecretBox(self._tool_settings.secret_keys).decrypt_all(tx)
        offer = await documents.fetch_and_preview_operations(
            source, chosen, secrets, self._tool_settings.private_hosts
        )

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            return _format_added(offer, await adding.extend_source(self._build_admin_action(task, tx), offer))

        return finish

    async def _load_source(self, name: str) -> Source:
        async with self._database.read_transaction() as tx:
            found = await sources.find(tx, name)
        if found is None or found.kind != "openapi":
            raise ChangeRefused(f"There is no document called {name[:60]}.")
        return found

    def _finish_adding(self, task: ToolTask, preview: SourcePreview) -> FinishTask:
        async def finish(tx: Transaction) -> tuple[Part, ...]:
            return _format_added(
                preview, await adding.register_source(self._build_admin_action(task, tx), preview)
            )

        return finish

    def _build_admin_action(self, task: ToolTask, tx: Transaction) -> AdminAction:
        return AdminAction(tx, task.actor, time.time(), self._builtin_tools)

    def _build_source_request(self, address: str, name: str) -> SourceRequest:
        return SourceRequest(
            name or suggest_name(address), address, private_hosts=self._tool_settings.private_hosts
        )


def _format_added(preview: SourcePreview, added: AddSourceResult) -> tuple[Part, ...]:
    return build_parts(
        [*words.format_add_result(added), *(escape_for_terminal(one) for one in preview.warnings)]
    )
