"""Answers what the bot cannot handle with one friendly line, and no more often than it helps.

Owns when it last sent such a line.
"""

from bot.db.people import people
from bot.db.queues import admin_notices
from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.incoming.prompt_text import describe_kind
from bot.telegram.incoming.update import ParsedUpdate
from bot.telegram.rate_limit import RateLimiter

PRIVATE_ONLY = "I only work in private chats for now."
NOTICE_INTERVAL_SECONDS = 60.0


class RefusalReplies:
    """Sends the lines; `max_waiting` is how many waiting messages of one person are accepted."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._overflow_limiter = RateLimiter(max_calls=1, window_seconds=NOTICE_INTERVAL_SECONDS)
        self._album_limiter = RateLimiter(max_calls=1, window_seconds=NOTICE_INTERVAL_SECONDS)

    async def handle_membership(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """Note that somebody blocked or unblocked the bot; refuse a group that the bot was added to."""
        assert update.membership is not None
        status = update.membership.new_chat_member.status
        if update.chat_type == "private":
            await people.set_reachable(context.tx, context.person, reachable=status != "kicked")
        elif update.chat_type != "channel" and status in {"member", "administrator"}:
            return await self.refuse_group(context)
        return ActionResult()

    async def refuse_group(self, context: ActionContext) -> ActionResult:
        """Reply once to a group that the bot only works in private chats."""
        is_first = await admin_notices.record_if_changed(
            context.tx, f"group {context.lane.chat}", PRIVATE_ONLY, now=context.now
        )
        if not is_first:
            return ActionResult()
        return reply_text(PRIVATE_ONLY)

    async def refuse_message(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """Refuse a message beyond the bound, or of a kind that the bot cannot read."""
        if update.item.shape == "overflow":
            return self._refuse_overflow(context)
        kind = describe_kind(context.item.body["message"])
        if kind is None:
            return ActionResult()
        album = update.message.media_group_id if update.message else None  # an album of videos
        if album and not self._album_limiter.try_acquire((context.lane.key, album), context.now):
            return ActionResult()
        return reply_text(f"I cannot read {kind} yet. Please write it to me as text.")

    def _refuse_overflow(self, context: ActionContext) -> ActionResult:
        if not self._overflow_limiter.try_acquire(context.lane.key, context.now):
            return ActionResult()
        count = f"{self._max_waiting} messages" if self._max_waiting > 1 else "a message"
        return reply_text(f"You already have {count} waiting; I did not take this one. Send it again later.")
