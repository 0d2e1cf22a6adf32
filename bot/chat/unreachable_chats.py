"""What follows when Telegram refuses every message to a chat: a person blocked the bot, a group removed it,
muted it, or has become a supergroup.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from bot.chat.group_directory import GroupDirectory
from bot.db.engine import Database
from bot.db.people import groups, people
from bot.domain import Lane
from bot.telegram.outcomes import DeliveryRefusal
from bot.turns import RunningTurns


class UnreachableChats:
    """Notes refusals in the database and in memory, and ends the turns of chats that are gone."""

    def __init__(
        self,
        database: Database,
        directory: GroupDirectory,
        running_turns: RunningTurns,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._directory = directory
        self._running_turns = running_turns
        self._clock = clock

    async def note_refusal(self, lane: Lane, refusal: DeliveryRefusal) -> None:
        """Note what a refusal says about the whole chat."""
        if refusal.new_chat is not None:
            await self._move(lane.chat, refusal.new_chat)
        elif lane.chat > 0:
            async with self._database.transaction() as tx:
                await people.set_reachable(tx, lane.chat, reachable=False)
        elif refusal.kind == "muted":
            await self._note_muted(lane.chat)
        else:
            await self._note_removed(lane.chat)

    async def _move(self, chat: int, new_chat: int) -> None:
        async with self._database.transaction() as tx:
            is_moved = await groups.move(tx, chat, new_chat)
        if is_moved:
            self._directory.move(chat, new_chat)

    async def _note_muted(self, chat: int) -> None:
        """Answer nothing there until Telegram says that the bot may write again."""
        group = self._directory.find(chat)
        if group is None or not group.can_send:
            return
        muted = replace(group, can_send=False)
        async with self._database.transaction() as tx:
            await groups.put(tx, muted)
        self._directory.remember(muted)

    async def _note_removed(self, chat: int) -> None:
        group = self._directory.find(chat)
        now = self._clock()
        async with self._database.transaction() as tx:
            lanes = await groups.end_work(tx, chat, now=now)
            if group is not None:
                group = replace(group, state="left", since=now)
                await groups.put(tx, group)
        if group is not None:
            self._directory.remember(group)
        for lane in lanes:
            self._running_turns.stop(lane)
