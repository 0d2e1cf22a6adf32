"""What the bot cannot do anything with: one friendly line, not more often than it helps. Owns when it said so
last.
"""

from bot.db.people import people
from bot.db.queues import admin_notices as notices
from bot.telegram.actions import Answer, Call, say
from bot.telegram.incoming import prompt_text as entering
from bot.telegram.incoming.update import Visit
from bot.telegram.rate_limit import Allowance

PRIVATE_ONLY = "I only work in private chats for now."
MINUTE = 60.0


class Refusals:
    """The lines; `most_waiting` is the bound of a person's waiting messages."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._overflows = Allowance(times=1, seconds=MINUTE)
        self._albums = Allowance(times=1, seconds=MINUTE)

    async def membership(self, visit: Visit, call: Call) -> Answer:
        """Somebody blocked or unblocked the bot, or brought it into a group."""
        if visit.membership:
            status = visit.membership.new_chat_member.status
        else:
            status = ""
        if visit.chat == "private":
            await people.set_reachable(call.tx, call.person, reachable=status != "kicked")
        elif visit.chat != "channel" and status in {"member", "administrator"}:
            return await self.group(call)
        return Answer()

    async def group(self, call: Call) -> Answer:
        """A group is told once that it will hear nothing."""
        told = await notices.news(call.tx, f"group {call.lane.chat}", PRIVATE_ONLY, now=call.now)
        if told:
            return say(PRIVATE_ONLY)
        return Answer()

    async def message(self, visit: Visit, call: Call) -> Answer:
        """A message beyond the bound, or of a kind the bot cannot read."""
        if visit.item.shape == "overflow":
            return self._overflow(call)
        kind = entering.kind_of(call.item.body["message"])
        album = visit.message.media_group_id if visit.message else None  # of videos, which are no pictures
        if kind is None or (album and not self._albums.take((call.lane.key, album), call.now)):
            return Answer()
        return say(f"I cannot read {kind} yet. Please write it to me as text.")

    def _overflow(self, call: Call) -> Answer:
        if not self._overflows.take(call.lane.key, call.now):
            return Answer()
        if self._most_waiting > 1:
            count = f"{self._most_waiting} messages"
        else:
            count = "a message"
        return say(f"You already have {count} waiting; I did not take this one. Send it again later.")
