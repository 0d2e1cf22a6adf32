"""The front of the house for tests: raw updates go the real way through the inbox to the handlers; turns, the
sender and Telegram's client are small stand-ins that remember what they were asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import select
from telegram import Bot
from telegram.error import NetworkError

from bot.attachments.reader import Reader
from bot.db.conversations import calls, conversations, turns
from bot.db.conversations.turns import Done, NewTurn
from bot.db.engine import Database, Transaction
from bot.db.people import people
from bot.db.people.people import Standing
from bot.db.queues import inbox
from bot.db.queues.admin_notices import Notices
from bot.db.queues.parked_items import Ended
from bot.db.tables import inbox as inbox_table
from bot.db.tables import outbox as outbox_table
from bot.domain import Lane, Message, ToolCall, ToolResult
from bot.errors import AttachmentUnusable
from bot.jobs.user_jobs import Bounds, Diary
from bot.telegram.access import Access, Mode
from bot.telegram.actions import Reach
from bot.telegram.best_effort_calls import Gestures
from bot.telegram.commands import registry as commands
from bot.telegram.incoming import envelope
from bot.telegram.incoming.attachment_loader import Gathering
from bot.telegram.incoming.downloads import GONE, Files
from bot.telegram.runners.reminders import Reminders
from bot.telegram.runners.updates import Handlers
from bot.turns.approvals import Approvals
from bot.turns.approvals import Reach as AskingReach
from bot.turns.context_window import Composition
from bot.turns.endpoints import Endpoint
from bot.turns.handle import Running
from bot.turns.runner import Complete
from bot.turns.start import Ask
from tools.builtin.clock import clock
from tools.builtin.notes import recall

ADMIN, ANNA, BOB = 1, 5, 6
NAMES = {ADMIN: "Ada", ANNA: "Anna", BOB: "Bob"}


@dataclass
class TurnsStandIn:
    """Answers by marking the items done."""

    database: Database
    running: Running = field(default_factory=lambda: Running(0, 60.0))
    asks: list[Ask] = field(default_factory=list)
    stops: list[tuple[Lane, int | None]] = field(default_factory=list)
    told: list[Lane] = field(default_factory=list)

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        whole = ask if complete is None else await complete(self.running)
        if whole is None:
            return
        self.asks.append(whole)
        ids = [item.id for item in ask.items]
        async with self.database.transaction() as tx:
            await tx.execute(
                inbox_table.update().where(inbox_table.c.id.in_(ids)).values(turn=len(self.asks))
            )
            await inbox.done(tx, ids, now=0.0)

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        self.stops.append((lane, before))
        return True

    def go_on(self, lane: Lane) -> None:
        self.told.append(lane)


@dataclass
class FilesStandIn:
    """What Telegram keeps, by id; anything else it does not have."""

    kept: dict[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    async def fetch(self, file_id: str) -> bytes:
        self.fetched.append(file_id)
        if file_id not in self.kept:
            raise AttachmentUnusable(GONE)
        return self.kept[file_id]


@dataclass
class BotStandIn:
    """Telegram's client; every call is remembered as (method, arguments), and fails while `is_away`."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_away: bool = False

    def __getattr__(self, method: str) -> Any:
        async def call(*positional: Any, **named: Any) -> bool:
            if self.is_away:
                raise NetworkError("gone")
            self.calls.append((method, {"given": positional, **named}))
            return True

        return call

    def of(self, method: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == method]


@dataclass(frozen=True)
class Sent:
    """A message as the outbox holds it."""

    lane: str
    text: str
    buttons: dict[str, str]
    silent: bool
    entities: list[Mapping[str, Any]]


class Front:
    """The handlers over a real database, with the clock in the tests' hands."""

    def __init__(
        self,
        database: Database,
        mode: Mode = "pairing",
        fixed: frozenset[int] = frozenset(),
        second: Endpoint | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.database = database
        self.now = 1_700_000_000.0
        self.bot = BotStandIn()
        self.composition = Composition((), 0, 8000, None, None, 0)
        self.turns = TurnsStandIn(database)
        self.access = Access(mode, fixed)
        self.woken: list[Lane] = []
        self.worker_wakes = 0
        self.ended: list[Ended] = []
        self.looks = 0
        self.diary = Diary(database, bounds or Bounds(), self._look, clock=lambda: self.now)
        gestures = Gestures(
            cast(Bot, self.bot), members=commands.menu("member"), admins=commands.menu("admin"), patience=0.2
        )
        self.approvals = Approvals(database, self._asking(), seconds=900, clock=lambda: self.now)
        reach = Reach(
            access=self.access,
            notices=Notices(fixed),
            turns=self.turns,
            gestures=gestures,
            wake_worker=self._wake_worker,
            wake_sender=self.woken.append,
            repeatable=lambda tool: tool == "clock",
            bot_name="canvas_bot",
            thinking="auto",
            composition=self._composition,
            approvals=self.approvals,
            diary=self.diary,
            second=second,
            own={tool.name: tool for tool in (clock, recall)},
        )
        self.files = FilesStandIn()
        gathering = Gathering(cast(Files, self.files), Reader(), None, most=2, room=8000)
        self.handlers = Handlers(database, reach, gathering, most_waiting=3, clock=lambda: self.now)
        self.reminders = Reminders(
            database, self.access, self.diary, self.woken.append, clock=lambda: self.now
        )
        self._updates = 100
        self._seen = 0

    def _asking(self) -> AskingReach:
        return AskingReach(
            admins=Notices(self.access.fixed).admins,
            is_admin=lambda person: self.access.standing(person) == "admin",
            wake_sender=self.woken.append,
            wake_worker=self._wake_worker,
            ended=self.ended.append,
        )

    async def _composition(self, tx: Transaction, lane: Lane) -> Composition:
        return self.composition

    def _look(self) -> None:
        self.looks += 1

    def _wake_worker(self) -> None:
        self.worker_wakes += 1

    async def let_in(self, person: int, standing: Standing = "member") -> None:
        async with self.database.transaction() as tx:
            await people.put(tx, person, NAMES.get(person, f"P{person}"), standing, by=ADMIN, now=self.now)
        await self.access.load(self.database)

    async def write(self, text: str, person: int = ANNA, **more: Any) -> list[Sent]:
        """Somebody sends a text; what the outbox holds of it afterwards."""
        await self.store(self.message(text=text, person=person, **more))
        return await self.handle()

    async def tap(
        self, data: str, person: int = ANNA, chat: int | None = None
    ) -> tuple[str | None, list[Sent]]:
        """Somebody presses a button: the line shown over the chat, and what the outbox holds afterwards."""
        message = self.message(text="…", person=person)["message"]
        message["chat"] = {"id": chat or person, "type": "private"}
        query = {"id": f"q{self._updates}", "from": user(person), "chat_instance": "1", "data": data}
        before = len(self.bot.of("answer_callback_query"))
        await self.store({"callback_query": query | {"message": message}})
        sent = await self.handle()
        answers = self.bot.of("answer_callback_query")[before:]
        return (answers[0]["text"] if answers else None), sent

    def message(self, person: int = ANNA, **more: Any) -> dict[str, Any]:
        """A raw update with a private message."""
        chat = {"id": person, "type": "private", "first_name": NAMES.get(person, "P")}
        plain = {"message_id": self._updates, "date": int(self.now), "chat": chat, "from": user(person)}
        return {"message": plain | more}

    async def store(self, *updates: Mapping[str, Any], stale: bool = False) -> list[int]:
        """Write updates down as the intake does; their inbox ids."""
        arrivals = []
        for update in updates:
            self._updates += 1
            arrival = envelope.read({"update_id": self._updates, **update}, self.now + (700 if stale else 0))
            assert arrival is not None
            arrivals.append(arrival)
        async with self.database.transaction() as tx:
            await inbox.store(tx, arrivals, now=self.now)
            ids = select(inbox_table.c.id).order_by(inbox_table.c.id)
            return list((await tx.execute(ids)).scalars())[-len(updates) :]

    async def handle(self) -> list[Sent]:
        """Take what may be taken, as the worker does; what the outbox holds of it afterwards."""
        async with self.database.transaction() as tx:
            claimed = await inbox.claim(tx, now=self.now)
        for items in claimed.groups:
            if items[0].kind == "update":
                await self.handlers(items)
            elif items[0].kind == "reminder":
                await self.reminders(items)
        return await self.sent()

    async def running(self, person: int = ANNA, **more: Any) -> int:
        """A message of somebody is being answered, and goes on being; its inbox id."""
        (item,) = await self.store(self.message(text="…", person=person, **more))
        async with self.database.transaction() as tx:
            await inbox.claim(tx, now=self.now)
        return item

    async def answered(self, *texts: str, tool: str | None = None, person: int = ANNA, item: int = 0) -> int:
        """A turn of the past that said these texts and ran a tool; its id."""
        said = [Message("user", text) for text in texts]
        async with self.database.transaction() as tx:
            number = (await conversations.find(tx, Lane(person))).number
            new = NewTurn(item, Lane(person), person, number, (), False, "", received_at=self.now)
            turn = await turns.open_turn(tx, new, [], said, now=self.now)
            assert turn is not None
            if tool:
                call = ToolCall("c1", tool, "{}")
                await calls.want(tx, turn.id, 1, [call], now=self.now)
                await calls.settle(tx, turn.id, 1, ToolResult(call, "done", "ok"), now=self.now)
            await turns.end(tx, turn.id, Done("answered", 1, 1, 1, None, ()), now=self.now + 2)
        return turn.id

    async def sent(self) -> list[Sent]:
        """The messages written to the outbox since the last look."""
        async with self.database.reading() as tx:
            query = select(outbox_table).where(outbox_table.c.id > self._seen).order_by(outbox_table.c.id)
            rows = (await tx.execute(query)).all()
        self._seen = rows[-1].id if rows else self._seen
        return [_sent(row.lane, json.loads(row.body)) for row in rows]

    async def item(self, item: int) -> Any:
        async with self.database.reading() as tx:
            return (await tx.execute(select(inbox_table).where(inbox_table.c.id == item))).one()

    async def items(self, **where: Any) -> list[Any]:
        async with self.database.reading() as tx:
            rows = (await tx.execute(select(inbox_table).order_by(inbox_table.c.id))).all()
        return [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]


def user(person: int) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": NAMES.get(person, f"P{person}")}


def _sent(lane: str, body: dict[str, Any]) -> Sent:
    buttons = {button["label"]: button["data"] for row in body["buttons"] for button in row}
    return Sent(lane, body["text"], buttons, body["silent"], body["entities"])
