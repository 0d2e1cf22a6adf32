"""Messages of a group that name nobody, where the endpoint is asked which of them are for the assistant.

One that is becomes an ordinary message, which waits in its lane; of any other nothing is kept. No message of
another person waits for that.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bot.chat.group_directory import GroupDirectory
from bot.chat.quota import QuotaGate
from bot.db.conversations import conversations, turns
from bot.db.engine import Database
from bot.db.people import group_texts
from bot.db.queues import unplaced_items
from bot.db.queues.inbox import STALE_SECONDS
from bot.domain import InboxItem, Lane
from bot.llm.address_question import MAX_LINES, GroupMessage
from bot.rate_limit import RateLimiter
from bot.telegram.incoming.envelope import find_lane
from bot.telegram.incoming.group_address import GroupIdentity, find_reply_target, find_speaker_name
from bot.telegram.incoming.prompt_text import extract_text
from bot.telegram.incoming.update import ParsedUpdate
from bot.turns import AddressJudge

MAX_READS_A_MINUTE = 6  # of a group; what comes beyond them counts as said to others
ANSWER_SECONDS = 600.0  # so long after an answer the assistant may be the one who is asked on


@dataclass(frozen=True, slots=True)
class UnaddressedMessages:
    """Has messages judged, of people whose questions would be answered today."""

    database: Database
    groups: GroupDirectory
    judge: AddressJudge
    quota: QuotaGate
    clock: Callable[[], float] = time.time
    _limiter: RateLimiter = field(default_factory=partial(RateLimiter, MAX_READS_A_MINUTE, 60.0))

    async def handle(self, update: ParsedUpdate, *, may_ask: bool) -> None:
        """Make the message one that is answered, or forget it; `may_ask`: its sender is answered there."""
        lane = find_lane(update.item.body["message"])
        if may_ask and lane is not None and await self._is_meant(update, lane):
            await self._take(update.item, lane)
        else:
            await self.forget(update.item)

    async def forget(self, item: InboxItem) -> None:
        """Keep nothing of a message but that it came."""
        async with self.database.transaction() as tx:
            await unplaced_items.forget(tx, item.id, now=self.clock())

    async def _is_meant(self, update: ParsedUpdate, lane: Lane) -> bool:
        now = self.clock()
        group = self.groups.find_open(lane.chat)
        if group is None or not group.judges or not group.can_send or update.person is None:
            return False
        if now - update.sent_at > STALE_SECONDS or not self._limiter.try_acquire(lane.chat, now):
            return False
        if not await self.quota.has_quota(update.person, lane):
            return False
        message = update.item.body["message"]
        said_before = await self._load_said_before(lane, message["message_id"])
        identity = self.groups.get_identity(lane.chat)
        return await self.judge.is_meant(lane, describe_group_message(message, identity, said_before))

    async def _load_said_before(self, lane: Lane, message_id: int) -> list[str]:
        """Return the assistant's last answer, if it is new, and what is read along, the oldest first."""
        now = self.clock()
        async with self.database.read_transaction() as tx:
            conversation = (await conversations.find(tx, lane)).number
            answer = await turns.find_last_answer(tx, lane, conversation, since=now - ANSWER_SECONDS)
            texts = await group_texts.load(tx, lane, before_message=message_id, now=now)
        moments = [(text.written_at, f"{text.name}: {text.text}") for text in texts[-MAX_LINES:]]
        if answer is not None:
            moments.append((answer.ended_at, f"the assistant: {answer.text}"))
        return [line for _, line in sorted(moments)]

    async def _take(self, item: InboxItem, lane: Lane) -> None:
        message_id = item.body["message"]["message_id"]
        async with self.database.transaction() as tx:
            await unplaced_items.place(tx, item.id, "text", lane, message_id)
            await group_texts.delete_message(tx, lane, message_id)


def describe_group_message(
    message: dict[str, Any], identity: GroupIdentity, said_before: list[str]
) -> GroupMessage:
    """Take from a raw message what its judgement needs."""
    names = [name for name in (identity.name, f"@{identity.username}") if name]
    quoted = find_reply_target(message)
    quoted_line = f"{find_speaker_name(quoted)}: {extract_text(quoted)}" if quoted else ""
    return GroupMessage(
        find_speaker_name(message), extract_text(message), names, tuple(said_before), quoted_line
    )
