"""What follows when Telegram refuses every message to a chat: a person blocked the bot, a group removed it,
muted it, or has become a supergroup; and when it takes no voice messages.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bot.chat.group_directory import GroupDirectory
from bot.db.conversations import chat_settings
from bot.db.engine import Database
from bot.db.people import groups, people
from bot.db.queues import outbox
from bot.domain import Lane, Part
from bot.telegram.outcomes import DeliveryRefusal
from bot.translations.translator import translatable
from bot.turns import RunningTurns

VOICE_REFUSED = translatable(
    "Telegram doesn't let me send voice messages here, so I stay with text. Once they're allowed, write "
    "/voice on."
)


@dataclass(frozen=True, slots=True)
class UnreachableChats:
    """Notes refusals in the database and in memory, and ends the turns of chats that are gone."""

    database: Database
    directory: GroupDirectory
    running_turns: RunningTurns
    clock: Callable[[], float] = time.time

    async def note_refusal(self, lane: Lane, refusal: DeliveryRefusal) -> None:
        """Note what a refusal says about the whole chat."""
        if refusal.new_chat is not None:
            await self._move(lane.chat, refusal.new_chat)
        elif refusal.kind == "voice":
            await self._note_voice_refused(lane)
        elif lane.chat > 0:
            async with self.database.transaction() as tx:
                await people.set_reachable(tx, lane.chat, reachable=False)
        elif refusal.kind == "muted":
            await self._note_muted(lane.chat)
        else:
            await self._note_removed(lane.chat)

    async def _note_voice_refused(self, lane: Lane) -> None:
        """Speak no more answers there, and say so once."""
        async with self.database.transaction() as tx:
            if await chat_settings.load_voice_mode(tx, lane.chat) == "refused":
                return
            await chat_settings.set_voice_mode(tx, lane.chat, "refused")
            translate = await people.find_translator(tx, lane.chat)
            parts = (Part(translate(VOICE_REFUSED), silent=True),)
            await outbox.add(tx, item=None, lane=lane, parts=parts, now=self.clock())

    async def _move(self, chat: int, new_chat: int) -> None:
        async with self.database.transaction() as tx:
            is_moved = await groups.move(tx, chat, new_chat)
        if is_moved:
            self.directory.move(chat, new_chat)

    async def _note_muted(self, chat: int) -> None:
        """Answer nothing there until Telegram says that the bot may write again."""
        group = self.directory.find(chat)
        if group is None or not group.can_send:
            return
        muted = replace(group, can_send=False)
        async with self.database.transaction() as tx:
            await groups.put(tx, muted)
        self.directory.remember(muted)

    async def _note_removed(self, chat: int) -> None:
        group = self.directory.find(chat)
        now = self.clock()
        async with self.database.transaction() as tx:
            lanes = await groups.end_work(tx, chat, now=now)
            if group is not None:
                group = replace(group, state="left", since=now)
                await groups.put(tx, group)
        if group is not None:
            self.directory.remember(group)
        for lane in lanes:
            self.running_turns.stop(lane)
