"""Tool tasks that add tools: an OpenAPI document, operations of it, one endpoint, an MCP server at a URL.

A chat never starts programs, and never receives secrets.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from bot.chat.commands.operation_picker import build_operation_page
from bot.chat.commands.option_words import split_options
from bot.chat.commands.sign_in_tasks import SignInTasks
from bot.chat.commands.tool_tasks import FinishTask, HandleTask, ToolTask
from bot.chat.commands.tool_text import build_parts
from bot.db.engine import Database
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.db.transaction import Transaction
from bot.domain import Part
from bot.errors import ChangeRefused
from bot.tool_registry import openapi_sources
from bot.tool_registry.add_source import (
    AddSourceResult,
    extend_source,
    get_openapi_source,
    narrow_list,
    refuse_taken_source,
    register_source,
)
from bot.tool_registry.admin_actions import AdminAction, begin_action
from bot.tool_registry.changes import shorten_list
from bot.tool_registry.configure_source import (
    check_fixed_names,
    preview_configuration,
    store_configuration,
)
from bot.tool_registry.endpoint_params import build_parameter_schema, suggest_name
from bot.tool_registry.formatting import format_add_result
from bot.tool_registry.loader import ToolSettings
from bot.tool_registry.previews import (
    SignInRequired,
    SourcePreview,
    SourceRequest,
    preview_endpoint,
    preview_server,
)
from bot.tool_registry.secret_references import find_secret_names
from bot.tool_registry.secrets import SecretBox
from bot.tool_registry.service_access import (
    ACCESS_OPTIONS,
    ServiceAccess,
    check_access,
    parse_access,
    read_access,
)
from bot.tool_registry.tool_info import BuiltinTools
from bot.translations.translator import translatable
from bot.usage.plain_text import escape_for_terminal

CONFIRM_HOST = "confirm-host"
PERSONAL = "personal"
HOW_TO = translatable(
    "Use /tools add URL [NAME] for an OpenAPI document, /tools add mcp URL [NAME] for an MCP server, or\n"
    "/tools add endpoint NAME GET https://api.example.com/weather/{city}\n"
    "The weather of a city.\n"
    "city: the city's name\n"
    "days (integer, optional): how many days\n"
    "Secrets by name: --header 'Authorization: Bearer {NAME}', --query 'key={NAME}', --cookie, --basic\n"
    "Always the same: --set 'argument=value'. Another server: --base-url, --variable\n"
    "An MCP server where each person has an account: --personal\n"
    "Add programs and files on the server: canvasgram tools add --help"
)


@dataclass(frozen=True, slots=True)
class AddToolTasks:
    """The handlers of these tasks."""

    database: Database
    tool_settings: ToolSettings
    builtin_tools: BuiltinTools
    sign_in_tasks: SignInTasks

    def get_handlers(self) -> Mapping[str, HandleTask]:
        """Return the handlers by the kind of task."""
        return {
            "add": self._add_source,
            "pick": self._pick_operations,
            "configure": self._configure_source,
        }

    async def _add_source(self, task: ToolTask) -> FinishTask:
        first_line, description = _split_description(task.order.words)
        words, options = split_options(first_line, ACCESS_OPTIONS, (PERSONAL,))
        access = parse_access(option for option in options if option[0] != PERSONAL)
        is_personal = (PERSONAL, "") in options
        if is_personal and not (words and words[0].lower() == "mcp"):
            raise ChangeRefused("--personal works only with an MCP server.")
        match words:
            case [kind, url, *names] if kind.lower() == "mcp":
                request = self._build_source_request(url, *names[:1], access=access)
                if is_personal:
                    request = replace(request, personal=task.order.person)
                return await self._add_server(task, request, await self._load_secrets(access))
            case [kind, name, method, url] if kind.lower() == "endpoint" and description:
                summary, *parameters = description
                request = self._build_source_request(url, name, access=access)
                schema = build_parameter_schema(parameters)
                preview = await preview_endpoint(request, method, summary.strip(), schema)
                return self._finish_adding(task, preview)
            case [url, *rest] if url.lower().startswith(("http://", "https://")) and not description:
                request = self._build_source_request(url, *rest[:1], access=access)
                return await self._add_document(task, request, rest[1:])
        raise ChangeRefused(HOW_TO)

    async def _add_server(
        self, task: ToolTask, request: SourceRequest, secrets: Mapping[str, str]
    ) -> FinishTask:
        """Add an MCP server; one that wants a sign-in without its tools, which come with that."""
        try:
            return self._finish_adding(task, await preview_server(request, secrets, is_remote=True))
        except SignInRequired as required:
            source = required.source
        async with self.database.read_transaction() as tx:
            await refuse_taken_source(tx, source.name)  # before somebody signs in
        link = await self.sign_in_tasks.begin(task, source)

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await register_source(await self._begin_admin_action(task, tx), SourcePreview(source, ()))
            return (link,)

        return finish

    async def _add_document(
        self, task: ToolTask, request: SourceRequest, operations: list[str]
    ) -> FinishTask:
        """Add the operations of a document that are named; without any, add a source to pick them from."""
        preview = await openapi_sources.preview_document(request, await self._load_secrets(request.access))
        chosen = openapi_sources.resolve_operations(preview.source, operations)
        if chosen and not openapi_sources.find_unconfirmed_hosts(preview.source, chosen):
            return self._finish_adding(
                task,
                await openapi_sources.preview_operations(
                    preview.source, preview.document, chosen, request.private_hosts
                ),
            )
        source = openapi_sources.with_ticked_operations(preview.source, chosen)
        suggestions = [
            suggestion.format_for_chat(task.translate, source.name) for suggestion in preview.suggestions
        ]
        notes = [escape_for_terminal(warning) for warning in preview.warnings]
        notes += [line for each in suggestions for line in map(escape_for_terminal, each.splitlines())]

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            await register_source(await self._begin_admin_action(task, tx), SourcePreview(source, ()))
            page = build_operation_page(task.translate, source, 0)
            if notes:
                return (*build_parts(notes), page)
            return (page,)

        return finish

    def _narrow_list(self, task: ToolTask, source: Source, words: str) -> FinishTask:
        """Show the operations that have these words, to pick from."""

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            narrowed = await narrow_list(await self._begin_admin_action(task, tx), source.name, words)
            return (build_operation_page(task.translate, narrowed, 0),)

        return finish

    async def _configure_source(self, task: ToolTask) -> FinishTask:
        words, options = split_options(" ".join(task.order.words.split()), (*ACCESS_OPTIONS, CONFIRM_HOST))
        if len(words) != 1:
            raise ChangeRefused(
                "Use /tools configure NAME --query 'api_key={KEY}', or another option of "
                "`canvasgram tools configure --help`.",
                KEY="{KEY}",
            )
        async with self.database.read_transaction() as tx:
            source = await sources.find(tx, words[0])
        if source is None:
            raise ChangeRefused("There is no source called {name}.", name=words[0][:60])
        access = parse_access(option for option in options if option[0] != CONFIRM_HOST)
        hosts = [host for option, host in options if option == CONFIRM_HOST]
        configured = await preview_configuration(
            source, access, hosts, await self._decrypt_secrets(), self.tool_settings.private_hosts
        )

        async def finish(tx: Transaction) -> tuple[Part, ...]:
            lines = await store_configuration(await self._begin_admin_action(task, tx), configured)
            shown = map(escape_for_terminal, (*lines, *configured.warnings))
            parts = build_parts([task.translate("{name} has been changed.", name=words[0]), *shown])
            after = configured.after
            if after.kind == "openapi" and not after.options["routes"]:
                return (*parts, build_operation_page(task.translate, after, 0))
            return parts

        return finish

    async def _pick_operations(self, task: ToolTask) -> FinishTask:
        name, *operations = task.order.words.split()
        async with self.database.read_transaction() as tx:
            source = await get_openapi_source(tx, name)
        if not operations:
            raise ChangeRefused(
                "Use /tools pick NAME, then numbers from its list, names of operations, search words, or all."
            )
        try:
            chosen = openapi_sources.resolve_operations(source, operations)
        except ChangeRefused:
            if not openapi_sources.search(source, " ".join(operations)):
                raise
            return self._narrow_list(task, source, " ".join(operations))
        preview = await openapi_sources.fetch_and_preview_operations(
            source, chosen, await self._decrypt_secrets(), self.tool_settings.private_hosts
        )
        return self._finish_with(extend_source, task, preview)

    async def _load_secrets(self, access: ServiceAccess) -> Mapping[str, str]:
        """The secrets, where any is named."""
        if not find_secret_names(access.texts):
            return {}
        return await self._decrypt_secrets()

    async def _decrypt_secrets(self) -> Mapping[str, str]:
        async with self.database.read_transaction() as tx:
            return await SecretBox(self.tool_settings.secret_keys).decrypt_all(tx)

    def _finish_adding(self, task: ToolTask, preview: SourcePreview) -> FinishTask:
        check_fixed_names(preview.source, read_access(preview.source.options).fixed)
        return self._finish_with(register_source, task, preview)

    def _finish_with(
        self,
        store: Callable[[AdminAction, SourcePreview], Awaitable[AddSourceResult]],
        task: ToolTask,
        preview: SourcePreview,
    ) -> FinishTask:
        async def finish(tx: Transaction) -> tuple[Part, ...]:
            added = await store(await self._begin_admin_action(task, tx), preview)
            warnings = [escape_for_terminal(warning) for warning in preview.warnings]
            lines = (*format_add_result(task.translate, added), *shorten_list(task.translate, warnings))
            return build_parts(lines)

        return finish

    async def _begin_admin_action(self, task: ToolTask, tx: Transaction) -> AdminAction:
        return await begin_action(tx, task.actor, time.time(), self.builtin_tools)

    def _build_source_request(self, address: str, name: str = "", *, access: ServiceAccess) -> SourceRequest:
        check_access(access)
        return SourceRequest(
            name or suggest_name(address),
            address,
            access=access,
            private_hosts=self.tool_settings.private_hosts,
        )


def _split_description(args: str) -> tuple[str, list[str]]:
    """The first line with the options that stand in the next ones, and the other lines."""
    first_line, *lines = args.splitlines() or [""]
    options = [line for line in lines if line.startswith(("--", "—", "\N{EN DASH}"))]
    return " ".join([first_line, *options]), [line for line in lines if line not in options]
