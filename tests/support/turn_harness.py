"""Runs turns without Telegram: a model with a script, and a channel that records what it is shown."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Table, select

from bot.agent.thinking_policy import ThinkingSetting
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database
from bot.db.queues import inbox, incoming_updates
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.incoming_updates import IncomingUpdate
from bot.db.queues.parked_items import EndedTurn
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox
from bot.db.transaction import Transaction
from bot.domain import (
    AnswerLinks,
    Button,
    CallTimes,
    Channel,
    InboxItem,
    Lane,
    ModelRequest,
    OutgoingFile,
    Part,
    Reply,
    ToolCall,
    Usage,
)
from bot.telegram.formatting.block_files import build_block_files
from bot.tool_registry.registry import ToolRegistry
from bot.translations.translator import ENGLISH, Translatable, Translator
from bot.turns.approvals import ApprovalDependencies, Approvals
from bot.turns.call_ledger import CallLedger
from bot.turns.endpoint_router import EndpointRoute, EndpointRoutes
from bot.turns.endpoints import ModelEndpoint
from bot.turns.execution import TurnRunner
from bot.turns.handle import RunningTurns
from bot.turns.history_search import HistorySearch
from bot.turns.model_caller import ModelCaller
from bot.turns.open_turn import TurnDependencies
from bot.turns.preflight import Preflight
from bot.turns.tool_policy import ToolPolicyDependencies
from bot.turns.turn_request import PreflightRequest, PreflightResult, TurnConfig, TurnRequest
from tests.support.commits import CommitRecord
from tools.base import PictureFitter, Tool, ToolContext

LANE = Lane(7)
SHUTDOWN_SECONDS = 20.0  # for each last write; the machine may be busy

ScriptedReply = Reply | Exception | Callable[[], Awaitable[Reply]]


def make_reply(text: str = "", *calls: ToolCall, finish_reason: str | None = None) -> Reply:
    """A whole reply of 5 tokens."""
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return Reply(text, "", calls, reason, Usage(100, 0, 5, 0), CallTimes(time.time()), blocks=1)


def make_call(name: str, arguments: str = "{}", id: str = "a") -> ToolCall:
    return ToolCall(id, name, arguments)


@dataclass
class ScriptedModel:
    """Gives one scripted reply a call, in order; a callable one is awaited once the seat is taken.

    `calls_before`: how many calls wait for a seat before ours.
    """

    script: list[ScriptedReply] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    was_called: asyncio.Event = field(default_factory=asyncio.Event)
    calls_before: int | None = None
    was_asked_for_place: asyncio.Event = field(default_factory=asyncio.Event)
    wait_for_seat: Callable[[], Awaitable[object]] | None = None

    async def call(
        self,
        request: ModelRequest,
        on_block: Callable[[str], None],
        on_seat: Callable[[], None],
        on_cut: Callable[[Reply], None] | None = None,
    ) -> Reply:
        self.requests.append(request)
        self.was_called.set()
        try:
            if self.wait_for_seat is not None:
                await self.wait_for_seat()
            on_seat()
            scripted = self.script.pop(0)
            if isinstance(scripted, Exception):
                raise scripted
            if isinstance(scripted, Reply):
                return scripted
            return await scripted()
        except asyncio.CancelledError:
            if on_cut is not None:
                on_cut(make_reply("so far"))
            raise

    def queue_position(self, lane: str) -> int | None:
        self.was_asked_for_place.set()
        return self.calls_before

    @property
    def has_free_seat(self) -> bool:
        return self.calls_before is None


@dataclass
class FakeChannel:
    """A channel that records what it is shown."""

    status_lines: list[str | None] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    status_shown: asyncio.Event = field(default_factory=asyncio.Event)
    end_count: int = 0
    translate: Translator = ENGLISH

    def begin(self, status: str | None = None) -> None: ...

    def show(self, text: str) -> None:
        self.snapshots.append(text)

    def show_status(self, line: str | None) -> None:
        self.status_lines.append(line)
        self.status_shown.set()

    def show_queue_place(self, line: str | None) -> None:
        self.show_status(line)

    def show_tool_progress(self, line: str | None) -> None:
        self.show_status(line)

    def set_links(self, links: AnswerLinks) -> None:
        pass

    async def render_parts(
        self,
        text: str,
        *,
        silent: bool = False,
        buttons: tuple[tuple[Button, ...], ...] = (),
        links: AnswerLinks | None = None,
    ) -> tuple[Part, ...]:
        return (Part(text, buttons=buttons, silent=silent),)

    async def build_files(self, text: str) -> tuple[OutgoingFile, ...]:
        return build_block_files(text)

    @contextlib.contextmanager
    def reserve_send(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        self.end_count += 1


class ScriptedPreflight:
    """Gives the answer of its harness."""

    def __init__(self, harness: "TurnHarness") -> None:
        self._harness = harness

    async def load_client(self) -> None: ...

    async def run(self, request: PreflightRequest, texts: Sequence[str]) -> PreflightResult:
        self._harness.preflight_requests.append(request)
        assert self._harness.preflight_result is not None
        return self._harness.preflight_result


@dataclass
class TurnHarness:
    """Runs turns over a real database.

    `preflight_result`: the endpoint's answer before a turn; None: it is not asked.
    `forbidden_tools`: tools that nobody may use.
    `admin_notices`: what admins were notified of.
    """

    database: Database
    model: ScriptedModel
    tools: Sequence[Tool] = ()
    turn_seconds: float = 60.0
    patience_seconds: float = 60.0
    shutdown_seconds: float = SHUTDOWN_SECONDS
    max_steps: int = 8
    prompt_budget: int = 8000
    thinking: ThinkingSetting = "off"
    preflight_result: PreflightResult | None = None
    preflight_requests: list[PreflightRequest] = field(default_factory=list)
    channel: FakeChannel = field(default_factory=FakeChannel)
    admin_notices: list[str] = field(default_factory=list)
    admins: list[int] = field(default_factory=list)
    forbidden_tools: set[str] = field(default_factory=set)
    suspended_tools: set[str] = field(default_factory=set)
    approval_seconds: float = 900.0
    commits: CommitRecord = field(default_factory=CommitRecord)
    running_turns: RunningTurns = field(default_factory=RunningTurns)
    ended_turns: list[EndedTurn] = field(default_factory=list)
    see: PictureFitter | None = None

    def __post_init__(self) -> None:
        self.database.set_listener(self.commits)

    @property
    def approvals(self) -> Approvals:
        dependencies = ApprovalDependencies(
            cast(AdminNotices, self),
            lambda person: person in self.admins,
            self.ended_turns.append,
        )
        return Approvals(self.database, dependencies, timeout_seconds=self.approval_seconds)

    def _is_granted(self, tool: str, person: int, chat: int) -> bool:
        return tool not in self.forbidden_tools

    async def list_admins(self, tx: Transaction) -> list[int]:
        return self.admins

    def build_runner(self) -> TurnRunner:
        return TurnRunner(
            TurnDependencies(
                database=self.database,
                routes=self._build_routes(),
                channel_for=self._channel_for,
                context_for=self._context_for,
                config=self._build_config(),
                preflight=cast(Preflight, ScriptedPreflight(self)),
                policy_dependencies=ToolPolicyDependencies(
                    self.approvals, self._is_granted, self.suspended_tools.__contains__
                ),
                turn_seconds=self.turn_seconds,
            ),
            self.running_turns,
        )

    def _build_routes(self) -> EndpointRoutes:
        endpoint = ModelEndpoint("main", "http://here/v1", self.model, lambda: "model")
        caller = ModelCaller(
            CallLedger(self.database, shutdown_seconds=self.shutdown_seconds),
            self.model,
            patience_seconds=self.patience_seconds,
            notify_admins=self._notify_admins,
        )
        return EndpointRoutes(self.database, EndpointRoute(endpoint, caller, can_continue=True), None)

    @property
    def tool_registry(self) -> ToolRegistry:
        return ToolRegistry(self.database, self.tools, lambda person: False)

    def _build_config(self) -> TurnConfig:
        has_preflight = self.preflight_result is not None
        return TurnConfig(
            "Be brief.",
            self.tool_registry,
            self.prompt_budget,
            self.max_steps,
            256,
            thinking=self.thinking,
            can_count_tokens=has_preflight,
            can_estimate_heavy_work=has_preflight,
        )

    async def new_request(self, *texts: str) -> TurnRequest:
        """Store messages and claim them together."""
        async with self.database.transaction() as tx:
            first = len((await tx.execute(select(inbox_table.c.id))).all())
            updates = [
                IncomingUpdate(number, "text", LANE, 7, "{}", stale=False, not_before=None)
                for number, _ in enumerate(texts, start=first)
            ]
            await incoming_updates.store(tx, updates, now=time.time())
        return self.build_request(await self.claim(), *texts)

    async def claim(self) -> tuple[InboxItem, ...]:
        async with self.database.transaction() as tx:
            [group] = (await inbox.claim(tx, now=time.time())).groups
        return group

    def build_request(self, items: tuple[InboxItem, ...], *texts: str) -> TurnRequest:
        return TurnRequest(items, LANE, person=7, name="Ann", texts=texts)

    async def restart(self, *texts: str) -> TurnRequest:
        """The request as a new process claims it again."""
        async with self.database.transaction() as tx:
            await inbox.recover(tx, now=time.time())
        return self.build_request(await self.claim(), *texts)

    async def load_rows(self, table: Table, *column_names: str) -> list[tuple[Any, ...]]:
        async with self.database.read_transaction() as tx:
            query = select(*(table.c[name] for name in column_names)).order_by(table.c.id)
            return [tuple(row) for row in await tx.execute(query)]

    async def load_answers(self) -> list[str]:
        """The final texts stored, oldest first."""
        return [json.loads(body)["text"] for [body] in await self.load_rows(outbox, "body")]

    def _channel_for(
        self, lane: Lane, item: int, *, silent: bool, reply_to: int | None, translate: Translator
    ) -> Channel:
        self.channel.translate = translate
        return self.channel

    def _context_for(self, request: TurnRequest, call_id: str, call_position: str) -> ToolContext:
        notes = ChatNotes(self.database, request.lane, author=request.name, person=request.person)
        past = HistorySearch(self.database, request.lane)
        return ToolContext(
            request.lane.key,
            request.name,
            request.person,
            call_id,
            notes,
            past,
            find_time,
            call_position,
            see=self.see,
        )

    async def _notify_admins(self, subject: str, text: Translatable) -> None:
        self.admin_notices.append(text(ENGLISH))


async def find_time() -> datetime:
    return datetime.now(UTC)


async def hang_forever() -> Reply:
    """A canvas that never ends."""
    await asyncio.Event().wait()
    raise AssertionError
