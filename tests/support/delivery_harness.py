"""A harness for tests of delivery: a sender on its own database and a simulated Telegram."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Row

from bot.db.engine import Database
from bot.db.queues import outbox
from bot.db.tables import outbox as outbox_table
from bot.domain import Changes, FirstSend, InboxItem, Lane, Part
from bot.sim.telegram.server import BotApiCall
from bot.telegram.client import create_bot
from bot.telegram.delivery.channel import ChatChannel
from bot.telegram.delivery.rate_budget import CallRate, RateLimits
from bot.telegram.delivery.sender import OwnLanes, Sender, SenderCallbacks
from bot.telegram.outcomes import DeliveryRefusal
from bot.translations.translator import ENGLISH, Translatable
from bot.turns.answer_messages import TurnAnswer, store_messages
from bot.turns.turn_request import TurnRequest
from tests.support.telegram.server import ScriptedBotApi

ANN = Lane(7)
ONE = "First block, which says something.\n\n"
TWO = ONE + "Second block, which goes on.\n\n"
THREE = TWO + "Third block, and the end."

NO_GAP_LIMITS = RateLimits(private_edit_gap=0.0, group_edit_gap=0.0)
"""The real budgets, without the pauses between edits."""

GENEROUS_LIMITS = RateLimits(
    CallRate(0.0001, 1000), CallRate(0.001, 1000), CallRate(0.001, 1000), CallRate(0.001, 1000), 0.0, 0.0
)


@dataclass
class SenderListener:
    """Wakes a sender for what is committed, as the gateway's listener does."""

    sender: Sender

    def build_notifications(self, changes: Changes) -> Sequence[str]:
        return ()

    def note_commit(self, changes: Changes) -> None:
        for lane in changes.outbox_lanes:
            self.sender.wake(lane)


@dataclass
class DeliveryHarness:
    """One database and one Telegram; senders come and go."""

    api: ScriptedBotApi
    url: str
    database: Database
    limits: RateLimits = NO_GAP_LIMITS
    blocked_lanes: list[Lane] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    supergroups: dict[int, int] = field(default_factory=dict)  # by the groups that they were

    async def note_refusal(self, lane: Lane, refusal: DeliveryRefusal) -> None:
        self.blocked_lanes.append(lane)

    async def on_trouble(self, subject: str, text: Translatable) -> None:
        self.problems.append(text(ENGLISH))

    @contextlib.asynccontextmanager
    async def run_sender(
        self, *, kill: bool = False, own_lanes: OwnLanes | None = None
    ) -> AsyncIterator[Sender]:
        """Run a sender; at the end it is stopped, or killed in the middle of whatever it does."""
        async with create_bot(self.api.token, self.url) as bot:
            for group, supergroup in self.supergroups.items():
                bot.chat_numbers.note(group, supergroup)
            sender = Sender(
                self.database,
                bot,
                SenderCallbacks(self, self.on_trouble),
                limits=self.limits,
                own_lanes=own_lanes,
            )
            self.database.set_listener(SenderListener(sender))
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(sender.run())
                try:
                    yield sender
                finally:
                    if kill:
                        running.cancel()
                    else:
                        sender.stop()

    def open_channel(
        self, sender: Sender, item: int = 1, lane: Lane = ANN, reply_to: int | None = None
    ) -> ChatChannel:
        return ChatChannel(sender, lane, item, silent=False, reply_to=reply_to)

    async def store_parts(self, parts: tuple[Part, ...], item: int | None = 1, lane: Lane = ANN) -> list[int]:
        async with self.database.transaction() as tx:
            return await outbox.add(tx, item=item, lane=lane, parts=parts, now=time.time())

    async def finish_turn(self, channel: ChatChannel, text: str, item: int = 1, lane: Lane = ANN) -> None:
        """End a turn as the turn runner does: store the final parts, then end the channel."""
        parts = await channel.render_parts(text)
        with channel.reserve_send() as first_send:
            await self.store_answer(parts, first_send, item, lane)
        channel.end()

    async def store_answer(
        self, parts: tuple[Part, ...], first_send: FirstSend | None, item: int = 1, lane: Lane = ANN
    ) -> None:
        now = time.time()
        answered = InboxItem(item, "update", "text", lane, lane.chat, {}, 1, False, now)
        request = TurnRequest((answered,), lane, lane.chat, "Ann", ())
        async with self.database.transaction() as tx:
            await store_messages(tx, 0, request, TurnAnswer("answered", parts), first_send, now=now)

    async def send_text(self, text: str, item: int | None = 1, lane: Lane = ANN) -> int:
        """Store one message for the sender; returns its row."""
        (row,) = await self.store_parts((Part(text),), item, lane)
        return row

    async def load_rows(self) -> list[Row[Any]]:
        async with self.database.read_transaction() as tx:
            return list((await tx.execute(select(outbox_table).order_by(outbox_table.c.id))).all())

    async def load_states(self) -> list[str]:
        return [row.state for row in await self.load_rows()]

    def list_texts(self, chat: int = 7) -> list[str]:
        """Return what the person sees from the bot."""
        return [message.text for message in self.api.chat(chat).bot_messages]

    def list_button_data(self, chat: int = 7) -> list[list[str]]:
        return [
            [button["callback_data"] for button in message.buttons]
            for message in self.api.chat(chat).bot_messages
        ]

    def list_methods(self, chat: int = 7) -> list[str]:
        return [call.method for call in self.list_calls(chat)]

    def list_calls(self, chat: int = 7) -> list[BotApiCall]:
        return [call for call in self.api.calls if call.chat_id == chat]
