"""What the bot cannot do anything with: one friendly line, not more often than it helps. Owns when it said so
last.
"""

from bot.db.people import people
from bot.db.queues import admin_notices as notices
from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.incoming import prompt_text as entering
from bot.telegram.incoming.update import ParsedUpdate
from bot.telegram.rate_limit import RateLimiter

PRIVATE_ONLY = "I only work in private chats for now."
NOTICE_INTERVAL_SECONDS = 60.0


class RefusalReplies:
    """The lines; `most_waiting` is the bound of a person's waiting messages."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._overflow_limiter = RateLimiter(max_calls=1, window_seconds=NOTICE_INTERVAL_SECONDS)
        self._album_limiter = RateLimiter(max_calls=1, window_seconds=NOTICE_INTERVAL_SECONDS)

    async def handle_membership(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """Somebody blocked or unblocked the bot, or brought it into a group."""
        if update.membership:
            status = update.membership.new_chat_member.status
        else:
            status = ""
        if update.chat_type == "private":
            await people.set_reachable(context.tx, context.person, reachable=status != "kicked")
        elif update.chat_type != "channel" and status in {"member", "administrator"}:
            return await self.refuse_group(context)
        return ActionResult()

    async def refuse_group(self, context: ActionContext) -> ActionResult:
        """A group is told once that it will hear nothing."""
        told = await notices.record_if_changed(
            context.tx, f"group {context.lane.chat}", PRIVATE_ONLY, now=context.now
        )
        if told:
            return reply_text(PRIVATE_ONLY)
        return ActionResult()

    async def refuse_message(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """A message beyond the bound, or of a kind the bot cannot read."""
        if update.item.shape == "overflow":
            return self._refuse_overflow(context)
        kind = entering.describe_kind(context.item.body["message"])
        album = update.message.media_group_id if update.message else None  # of videos, which are no pictures
        if kind is None or (
            album and not self._album_limiter.try_acquire((context.lane.key, album), context.now)
        ):
            return ActionResult()
        return reply_text(f"I cannot read {kind} yet. Please write it to me as text.")

    def _refuse_overflow(self, context: ActionContext) -> ActionResult:
        if not self._overflow_limiter.try_acquire(context.lane.key, context.now):
            return ActionResult()
        if self._max_waiting > 1:
            count = f"{self._max_waiting} messages"
        else:
            count = "a message"
        return reply_text(f"You already have {count} waiting; I did not take this one. Send it again later.")
