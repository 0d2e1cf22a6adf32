"""One turn at work without Telegram: a model that says what it is told to, a channel that keeps what it was
shown.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Table, select

from bot.agent.thinking_policy import Setting
from bot.db.conversations.notes import ChatNotes
from bot.db.engine import Database, Transaction
from bot.db.queues import inbox
from bot.db.queues.inbox import Arrival
from bot.db.queues.parked_items import Ended
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox
from bot.domain import Button, CallTimes, Channel, InboxItem, Lane, ModelRequest, Part, Reply, ToolCall, Usage
from bot.tool_registry.registry import Catalogue
from bot.turns.approvals import Approvals, Reach
from bot.turns.endpoint_router import Place, Places
from bot.turns.endpoints import Endpoint
from bot.turns.execution import Means
from bot.turns.history_search import ChatPast
from bot.turns.model_caller import Asking
from bot.turns.runner import Turns
from bot.turns.start import Ask, Plan, Told, Wanting
from bot.turns.tool_policy import Guard
from tools.base import See, Tool, ToolContext

LANE = Lane(7)

Says = Reply | Exception | Callable[[], Awaitable[Reply]]


def said(text: str = "", *calls: ToolCall, finish: str | None = None) -> Reply:
    """A whole reply of 5 tokens."""
    reason = finish or ("tool_calls" if calls else "stop")
    return Reply(text, "", calls, reason, Usage(100, 0, 5, 0), CallTimes(time.time()), blocks=1)


def call(name: str, arguments: str = "{}", id: str = "a") -> ToolCall:
    return ToolCall(id, name, arguments)


@dataclass
class Model:
    """Says one thing a call, in order; what is awaitable is awaited on the seat. `place`: how many wait
    before us.
    """

    says: list[Says] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    place: int | None = None
    queue: Callable[[], Awaitable[object]] | None = None

    async def call(
        self,
        request: ModelRequest,
        on_block: Callable[[str], None],
        on_seat: Callable[[], None],
        on_cut: Callable[[Reply], None] | None = None,
    ) -> Reply:
        self.requests.append(request)
        self.asked.set()
        try:
            if self.queue is not None:
                await self.queue()
            on_seat()
            says = self.says.pop(0)
            if isinstance(says, Exception):
                raise says
            return says if isinstance(says, Reply) else await says()
        except asyncio.CancelledError:
            if on_cut is not None:
                on_cut(said("so far"))
            raise

    def waiting(self, lane: str) -> int | None:
        return self.place

    @property
    def idle(self) -> bool:
        return self.place is None


@dataclass
class Shown:
    """A channel that keeps what it was told."""

    lines: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    ended: int = 0

    def begin(self) -> None: ...

    def show(self, text: str) -> None:
        self.texts.append(text)

    def status(self, line: str | None) -> None:
        self.lines.append(line)
        self.told.set()

    def queue(self, line: str | None) -> None:
        self.status(line)

    def parts(
        self, text: str, *, silent: bool = False, buttons: tuple[tuple[Button, ...], ...] = ()
    ) -> tuple[Part, ...]:
        return (Part(text, buttons=buttons, silent=silent),)

    def end(self) -> None:
        self.ended += 1


@dataclass
class Desk:
    """Turns over a real database. `news` are what admins were told."""

    database: Database
    model: Model
    tools: Sequence[Tool] = ()
    seconds: float = 60.0
    wait: float = 60.0
    steps: int = 8
    budget: int = 8000
    thinking: Setting = "off"
    told: Told | None = None  # what the endpoint says when it is asked before a turn; None: it is not asked
    wants: list[Wanting] = field(default_factory=list)
    channel: Shown = field(default_factory=Shown)
    news: list[str] = field(default_factory=list)
    admins: list[int] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)  # tools that nobody may use
    resting: set[str] = field(default_factory=set)
    most: int = 16
    patience: float = 900.0
    woken: list[Lane] = field(default_factory=list)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[Ended] = field(default_factory=list)
    see: See | None = None

    @property
    def approvals(self) -> Approvals:
        """How people are asked about calls."""
        reach = Reach(
            self._reachable, lambda one: one in self.admins, self.woken.append, self._wake, self.ended.append
        )
        return Approvals(self.database, reach, seconds=self.patience)

    def _granted(self, tool: str, person: int, chat: int) -> bool:
        return tool not in self.closed

    async def _reachable(self, tx: Transaction) -> list[int]:
        return self.admins

    def _wake(self) -> None:
        self.awake.set()

    def turns(self) -> Turns:
        return Turns(
            Means(
                database=self.database,
                places=self._places(),
                channel_for=self._channel,
                context_for=self._context,
                plan=self._plan(),
                inquire=self.inquire,
                guard=Guard(self.approvals, self._granted, self.most, self.resting.__contains__),
                seconds=self.seconds,
            ),
            wake=lambda: None,
        )

    def _places(self) -> Places:
        first = Endpoint("main", "http://here/v1", self.model, lambda: "model")
        asking = Asking(self.database, self.model, wait=self.wait, tell=self._tell)
        return Places(self.database, Place(first, asking, continues=True), None, lambda lane: None)

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.database, self.tools, lambda person: False)

    def _plan(self) -> Plan:
        asks = self.told is not None
        return Plan(
            "Be brief.",
            self.catalogue,
            self.budget,
            self.steps,
            256,
            thinking=self.thinking,
            counts=asks,
            reads=asks,
        )

    async def inquire(self, wanting: Wanting, texts: Sequence[str]) -> Told:
        self.wants.append(wanting)
        assert self.told is not None
        return self.told

    async def ask(self, *texts: str) -> Ask:
        """Messages that have arrived and are claimed together."""
        async with self.database.transaction() as tx:
            first = len((await tx.execute(select(inbox_table.c.id))).all())
            arrived = [
                Arrival(number, "text", LANE, 7, "{}", stale=False, not_before=None)
                for number, _ in enumerate(texts, start=first)
            ]
            await inbox.store(tx, arrived, now=time.time())
        return self.again(await self.claim(), *texts)

    async def claim(self) -> tuple[InboxItem, ...]:
        async with self.database.transaction() as tx:
            [group] = (await inbox.claim(tx, now=time.time())).groups
        return group

    def again(self, items: tuple[InboxItem, ...], *texts: str) -> Ask:
        return Ask(items, LANE, person=7, name="Ann", texts=texts)

    async def restarted(self, *texts: str) -> Ask:
        """What was asked, claimed once more by a new process."""
        async with self.database.transaction() as tx:
            await inbox.recover(tx, now=time.time())
        return self.again(await self.claim(), *texts)

    async def rows(self, table: Table, *names: str) -> list[tuple[Any, ...]]:
        async with self.database.reading() as tx:
            query = select(*(table.c[name] for name in names)).order_by(table.c.id)
            return [tuple(row) for row in await tx.execute(query)]

    async def answers(self) -> list[str]:
        """The final texts stored, oldest first."""
        return [json.loads(body)["text"] for [body] in await self.rows(outbox, "body")]

    def _channel(self, lane: Lane, item: int, *, silent: bool) -> Channel:
        return self.channel

    def _context(self, ask: Ask, call_id: str, place: str) -> ToolContext:
        notes = ChatNotes(self.database, ask.lane, author=ask.name, person=ask.person)
        past = ChatPast(self.database, ask.lane)
        now = partial(datetime.now, UTC)
        return ToolContext(ask.lane.key, ask.name, ask.person, call_id, notes, past, now, place, see=self.see)

    async def _tell(self, subject: str, text: str) -> None:
        self.news.append(text)


async def forever() -> Reply:
    """A canvas that never ends."""
    await asyncio.Event().wait()
    raise AssertionError
