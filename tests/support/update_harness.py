"""A harness for tests of updates: raw updates go through the real inbox to the runners.

Turns, the sender and Telegram's client are small fakes that record what they were asked.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy import select
from telegram import Bot
from telegram.error import NetworkError

from bot.chat.access import Access, AccessMode
from bot.chat.actions import ActionDependencies, GroupParts, OwnerSettings, ToolParts, TurnParts
from bot.chat.commands.registry import build_group_menu, build_menu
from bot.chat.guest_queries import GuestQueries
from bot.chat.quota import QuotaGate
from bot.chat.reminders import ReminderRunner
from bot.chat.unaddressed_messages import UnaddressedMessages
from bot.chat.updates import UpdateRunner
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.turns import NewTurn, TurnEnd
from bot.db.engine import Database
from bot.db.people import group_texts, people
from bot.db.people.people import RoleOrBlocked
from bot.db.queues import inbox, incoming_updates
from bot.db.queues.admin_notices import AdminNotices
from bot.db.queues.parked_items import EndedTurn
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox as outbox_table
from bot.db.transaction import Transaction
from bot.domain import Lane, Message, ToolCall, ToolResult
from bot.errors import AttachmentUnusable
from bot.jobs.user_jobs import JobLimits, UserJobs
from bot.llm.address_question import GroupMessage
from bot.maintenance.retention import RetentionPolicy
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.telegram.client import TelegramClient
from bot.telegram.incoming.attachment_loader import AttachmentLoader
from bot.telegram.incoming.downloads import FILE_GONE, FileDownloader
from bot.telegram.incoming.envelope import read_envelope
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.sign_in_flows import SignInFlows, SignInRequest
from bot.translations.translator import Translatable
from bot.turns.address_judge import AddressJudge
from bot.turns.approvals import ApprovalDependencies, Approvals
from bot.turns.context_window import PromptBreakdown, PromptBreakdowns
from bot.turns.endpoints import ModelEndpoint
from bot.turns.execution import RequestCompleter
from bot.turns.handle import TurnHandle
from bot.turns.tool_questions import ToolQuestions
from bot.turns.turn_request import TurnRequest
from tests.support import attachment_files
from tests.support.commits import CommitRecord
from tests.support.groups import build_directory
from tools.base import ToolError
from tools.builtin.clock import clock
from tools.builtin.notes import recall
from tools.mcp.sign_in import SignIn

ADMIN = 1
ANNA = 5
BOB = 6
NAMES = {ADMIN: "Ada", ANNA: "Anna", BOB: "Bob"}


@dataclass
class FakeTurnService:
    """Answers by marking the items done."""

    database: Database
    handle: TurnHandle = field(default_factory=lambda: TurnHandle(0, 60.0))
    requests: list[TurnRequest] = field(default_factory=list)
    stops: list[tuple[Lane, int | None]] = field(default_factory=list)
    woken_lanes: list[Lane] = field(default_factory=list)

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        completed: TurnRequest | None = request
        if complete is not None:
            completed = await complete(self.handle)
        if completed is None:
            return
        self.requests.append(completed)
        ids = [item.id for item in request.items]
        async with self.database.transaction() as tx:
            await tx.execute(
                inbox_table.update().where(inbox_table.c.id.in_(ids)).values(turn=len(self.requests))
            )
            await inbox.mark_done(tx, ids, now=0.0)

    def clear_cache(self) -> None:
        """Nothing was read."""

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        self.stops.append((lane, before))
        return True

    def wake(self, lane: Lane) -> None:
        self.woken_lanes.append(lane)


@dataclass
class FakeFileDownloader:
    """Files by id, as Telegram keeps them; any other id is refused."""

    files: dict[str, bytes] = field(default_factory=dict)
    fetched_ids: list[str] = field(default_factory=list)

    async def fetch(self, file_id: str) -> bytes:
        self.fetched_ids.append(file_id)
        if file_id not in self.files:
            raise AttachmentUnusable(FILE_GONE)
        return self.files[file_id]


@dataclass
class FakeBot:
    """Telegram's client; records every call as (method, arguments), and fails while `is_offline`."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_offline: bool = False

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> bool:
            if self.is_offline:
                raise NetworkError("gone")
            self.calls.append((method, {"given": args, **kwargs}))
            return True

        return call

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == method]


class SeenToolRegistry(ToolRegistry):
    """Has the tools that it was given, whatever is registered."""

    async def refresh(self) -> None:
        """Load nothing: sources of these tests have no document."""


@dataclass
class FakeAdministrators:
    """Administers every group: who is among these people, and each group itself."""

    people: set[int]

    async def is_administrator(self, chat: int, person: int) -> bool:
        return person == chat or person in self.people


@dataclass
class FakeSight:
    """Sees in groups what it is told to."""

    sees_all: bool | None = False

    async def find(self, chat: int, *, was_added: bool = False) -> bool | None:
        return self.sees_all


@dataclass
class ScriptedAddressJudge:
    """Says of messages what it is told; `messages` are those it was asked about, `meanwhile` what happens."""

    is_supported: bool | None = True
    is_for_assistant: bool = False
    meanwhile: Callable[[], Awaitable[None]] | None = None
    messages: list[GroupMessage] = field(default_factory=list)

    async def is_meant(self, lane: Lane, message: GroupMessage) -> bool:
        self.messages.append(message)
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.is_for_assistant

    async def learn_support(self) -> None:
        self.is_supported = True


@dataclass(frozen=True)
class SentMessage:
    """A message as the outbox holds it."""

    lane: str
    text: str
    buttons: dict[str, str]
    silent: bool
    entities: list[Mapping[str, Any]]


class UpdateHarness:
    """The runners of updates and reminders over a real database, with a clock that tests set."""

    def __init__(
        self,
        database: Database,
        mode: AccessMode = "pairing",
        configured_admins: frozenset[int] = frozenset(),
        fallback_endpoint: ModelEndpoint | None = None,
        job_limits: JobLimits | None = None,
    ) -> None:
        self.database = database
        self.now = 1_700_000_000.0
        self.bot = FakeBot()
        self.prompt_breakdown = PromptBreakdown((), 0, 8000, None, None, 0)
        self.turns = FakeTurnService(database)
        self.access = Access(mode, configured_admins)
        self.groups = build_directory()
        self.administrators = FakeAdministrators(set())
        self.group_sight = FakeSight()
        self.address_judge = ScriptedAddressJudge()
        self.is_within_quota = True
        self.commits = CommitRecord()
        database.set_listener(self.commits)
        self.ended_items: list[EndedTurn] = []
        self.user_jobs = UserJobs(database, job_limits or JobLimits(), clock=lambda: self.now)
        best_effort_calls = BestEffortCalls(
            cast(Bot, self.bot), build_menu, build_group_menu, list, timeout_seconds=0.2
        )
        self.approvals = Approvals(
            database, self._approval_dependencies(), timeout_seconds=900, clock=lambda: self.now
        )
        self.tool_questions = ToolQuestions(database, self._notify_admins)
        self.builtin_tools = {tool.name: tool for tool in (clock, recall)}
        self.deps = ActionDependencies(
            access=self.access,
            notices=AdminNotices(configured_admins),
            groups=GroupParts(
                self.groups,
                self.administrators,
                self.group_sight,
                UnaddressedMessages(
                    database,
                    self.groups,
                    cast(AddressJudge, self.address_judge),
                    quota=cast(QuotaGate, self),
                    clock=lambda: self.now,
                ),
                GuestQueries(database, TelegramClient(cast(Bot, self.bot))),
            ),
            turns=TurnParts(
                self.turns,
                cast(QuotaGate, self.turns),
                self.approvals,
                self.tool_questions,
                fallback_endpoint,
                "auto",
                cast(PromptBreakdowns, SimpleNamespace(load=self._load_prompt_breakdown)),
            ),
            tools=ToolParts(
                SeenToolRegistry(
                    database,
                    self.builtin_tools.values(),
                    lambda person: self.access.get_role(person) == "admin",
                ),
                self.builtin_tools,
                SignInFlows(frozenset(), "http://127.0.0.1/signed-in", self),
                None,
            ),
            user_jobs=self.user_jobs,
            settings=OwnerSettings(
                "canvas_bot",
                None,
                "UTC",
                None,
                "http://127.0.0.1:8080/hooks",
                False,
                RetentionPolicy(None, None),
            ),
            best_effort_calls=best_effort_calls,
        )
        self.downloader = FakeFileDownloader()
        attachment_loader = AttachmentLoader(
            cast(FileDownloader, self.downloader),
            attachment_files.build_reader(),
            None,
            count_images=lambda: 2,
            max_text_bytes=8000,
        )
        self.update_runner = UpdateRunner(
            database,
            self.deps,
            attachment_loader,
            max_waiting=3,
            clock=lambda: self.now,
        )
        self.reminder_runner = ReminderRunner(
            database, self.access, self.groups, self.user_jobs, clock=lambda: self.now
        )
        self._last_update_id = 100
        self._last_outbox_row = 0

    def _approval_dependencies(self) -> ApprovalDependencies:
        return ApprovalDependencies(
            notices=AdminNotices(self.access.configured_admins),
            is_admin=lambda person: self.access.get_role(person) == "admin",
            on_turn_ended=self.ended_items.append,
        )

    async def has_quota(self, person: int, lane: Lane) -> bool:
        return self.is_within_quota

    async def store_outcome(self, request: SignInRequest, outcome: SignIn | ToolError) -> None: ...

    async def _load_prompt_breakdown(self, tx: Transaction, lane: Lane) -> PromptBreakdown:
        return self.prompt_breakdown

    async def _notify_admins(self, subject: str, text: Translatable) -> None: ...

    async def let_in(self, person: int, role: RoleOrBlocked = "member") -> None:
        async with self.database.transaction() as tx:
            await people.put(tx, person, NAMES.get(person, f"P{person}"), role, let_in_by=ADMIN, now=self.now)
        await self.access.load(self.database)

    async def send_text(self, text: str, person: int = ANNA, **more: Any) -> list[SentMessage]:
        """Send a text as a person; return what the outbox holds of it afterwards."""
        await self.store_updates(self.build_message(text=text, person=person, **more))
        return await self.handle_claimed()

    async def tap(
        self, data: str, person: int = ANNA, chat: int | None = None
    ) -> tuple[str | None, list[SentMessage]]:
        """Tap a button as a person; return the toast, and what the outbox holds afterwards."""
        message = self.build_message(text="…", person=person)["message"]
        message["chat"] = {"id": chat or person, "type": "private"}
        query = {
            "id": f"q{self._last_update_id}",
            "from": build_user(person),
            "chat_instance": "1",
            "data": data,
        }
        before = len(self.bot.calls_of("answer_callback_query"))
        await self.store_updates({"callback_query": query | {"message": message}})
        sent = await self.handle_claimed()
        answers = self.bot.calls_of("answer_callback_query")[before:]
        return (answers[0]["text"] if answers else None), sent

    def build_message(self, person: int = ANNA, **more: Any) -> dict[str, Any]:
        """Build a raw update with a private message."""
        chat = {"id": person, "type": "private", "first_name": NAMES.get(person, "P")}
        message = {
            "message_id": self._last_update_id,
            "date": int(self.now),
            "chat": chat,
            "from": build_user(person),
        }
        return {"message": message | more}

    async def store_updates(self, *updates: Mapping[str, Any], stale: bool = False) -> list[int]:
        """Store updates as the poller does; return their inbox ids."""
        incoming = []
        group_texts_read = []
        for update in updates:
            self._last_update_id += 1
            raw = self.groups.numbers.read({"update_id": self._last_update_id, **update})
            stored = read_envelope(raw, self.now + (700 if stale else 0), self.groups)
            assert stored is not None
            if stored.group_text is not None:
                group_texts_read.append(stored.group_text)
            if not stored.is_for_others:
                incoming.append(stored)
        async with self.database.transaction() as tx:
            await group_texts.store(tx, group_texts_read, now=self.now)
            await incoming_updates.store(tx, incoming, now=self.now)
            ids = select(inbox_table.c.id).order_by(inbox_table.c.id)
            stored_ids = list((await tx.execute(ids)).scalars())[-len(updates) :]
        self.commits.clear()
        return stored_ids

    async def handle_claimed(self) -> list[SentMessage]:
        """Claim and handle what is due, as the worker does; return what the outbox holds of it afterwards."""
        async with self.database.transaction() as tx:
            claimed = await inbox.claim(tx, now=self.now)
        for items in claimed.groups:
            if items[0].kind == "update":
                await self.update_runner(items)
            elif items[0].kind == "reminder":
                await self.reminder_runner(items)
        return await self.read_sent()

    async def start_turn(self, person: int = ANNA, **more: Any) -> int:
        """Claim a message of a person whose turn then keeps running; return its inbox id."""
        (item,) = await self.store_updates(self.build_message(person=person, **({"text": "…"} | more)))
        async with self.database.transaction() as tx:
            await inbox.claim(tx, now=self.now)
        return item

    async def store_answered_turn(
        self,
        *texts: str,
        tool: str | None = None,
        person: int = ANNA,
        item: int = 0,
        lane: Lane | None = None,
    ) -> int:
        """Store a past turn with these texts, which may have run a tool; return its id."""
        messages = [Message("user", text) for text in texts]
        async with self.database.transaction() as tx:
            lane = lane or Lane(person)
            number = (await conversations.find(tx, lane)).number
            new = NewTurn(item, lane, person, number, (), False, "", received_at=self.now)
            turn = await turns.open_turn(tx, new, [], messages, now=self.now)
            assert turn is not None
            if tool:
                call = ToolCall("c1", tool, "{}")
                await calls.insert_tool_calls(tx, turn.id, 1, [call], now=self.now)
                await calls.store_tool_result(tx, turn.id, 1, ToolResult(call, "done", "ok"), now=self.now)
            await turns.end(tx, turn.id, TurnEnd("answered", 1, 1, 1, None, ()), now=self.now + 2)
        return turn.id

    async def read_sent(self) -> list[SentMessage]:
        """Return the messages written to the outbox since the last call."""
        async with self.database.read_transaction() as tx:
            query = (
                select(outbox_table)
                .where(outbox_table.c.id > self._last_outbox_row)
                .order_by(outbox_table.c.id)
            )
            rows = (await tx.execute(query)).all()
        self._last_outbox_row = rows[-1].id if rows else self._last_outbox_row
        return [_to_sent_message(row.lane, json.loads(row.body)) for row in rows]

    async def load_item(self, item_id: int) -> Any:
        async with self.database.read_transaction() as tx:
            return (await tx.execute(select(inbox_table).where(inbox_table.c.id == item_id))).one()

    async def load_items(self, **filters: Any) -> list[Any]:
        async with self.database.read_transaction() as tx:
            rows = (await tx.execute(select(inbox_table).order_by(inbox_table.c.id))).all()
        return [row for row in rows if all(getattr(row, name) == value for name, value in filters.items())]


def build_user(person: int) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": NAMES.get(person, f"P{person}")}


def _to_sent_message(lane: str, body: dict[str, Any]) -> SentMessage:
    buttons = {button["label"]: button["data"] for row in body["buttons"] for button in row}
    return SentMessage(lane, body["text"], buttons, body["silent"], body["entities"])
