"""Answers what the bot cannot handle with one friendly line, and no more often than it helps.

Owns when it last sent such a line.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.db.people import people
from bot.domain import InboxItem, Lane
from bot.rate_limit import RateLimiter
from bot.telegram.incoming.envelope import find_lane
from bot.telegram.incoming.prompt_text import describe_kind, extract_text
from bot.telegram.incoming.update import ParsedUpdate, parse_update

NOTICE_INTERVAL_SECONDS = 60.0
MAX_PREVIEW_CHARS = 40  # of a message that is not taken


class RefusalReplies:
    """Sends the lines; `max_waiting` is how many waiting messages of one person are accepted."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._album_limiter = RateLimiter(max_calls=1, window_seconds=NOTICE_INTERVAL_SECONDS)

    async def handle_membership(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """Note that somebody blocked or unblocked the bot."""
        assert update.membership is not None
        await people.set_reachable(context.tx, context.person, reachable=not update.membership.is_blocked)
        return ActionResult()

    async def refuse_message(self, update: ParsedUpdate, context: ActionContext) -> ActionResult:
        """Refuse a message of a kind that the bot cannot read."""
        kind = describe_kind(context.item.body["message"])
        if kind is None:
            return ActionResult()
        album = update.message.album if update.message else None  # an album of videos
        if album and not self._album_limiter.try_acquire((context.lane.key, album), context.now):
            return ActionResult()
        return reply_text(context.translate("I can't read this kind of message yet. Please type it."))

    async def refuse_overflow(self, updates: Sequence[ParsedUpdate], context: ActionContext) -> ActionResult:
        """Refuse messages of a lane that are too many, in a reply to the first of them."""
        first = updates[0].message
        assert first is not None
        translate = context.translate
        if first.is_forward:
            reason = translate("That's more than I can read at once.")
        else:
            reason = translate.plural(
                "You have {count} message waiting.", "You have {count} messages waiting.", self._max_waiting
            )
        beginning = _build_preview(updates[0])
        end = _build_preview(updates[-1])
        if len(updates) == 1:
            skipped = translate("So I skipped this one. Please send it again in a minute.")
        elif beginning and end:
            skipped = translate.plural(
                "So I skipped {count} message, from “{beginning}” to “{end}”. "
                "Please send it again in a minute.",
                "So I skipped {count} messages, from “{beginning}” to “{end}”. "
                "Please send them again in a minute.",
                len(updates),
                beginning=beginning,
                end=end,
            )
        else:
            skipped = translate.plural(
                "So I skipped {count} message. Please send it again in a minute.",
                "So I skipped {count} messages. Please send them again in a minute.",
                len(updates),
            )
        return replace(reply_text(f"{reason} {skipped}"), reply_to=first.message_id)


def group_by_lane(refused: Sequence[InboxItem]) -> list[list[ParsedUpdate]]:
    """Group refused messages of one person by chat and topic; the first of each group is parsed."""
    items_by_lane: dict[Lane | None, list[InboxItem]] = {}
    for item in refused:
        items_by_lane.setdefault(find_lane(item.body["message"]), []).append(item)
    return [[parse_update(items[0]), *map(ParsedUpdate, items[1:])] for items in items_by_lane.values()]


def _build_preview(update: ParsedUpdate) -> str:
    words = " ".join(extract_text(update.item.body["message"]).split())
    if len(words) <= MAX_PREVIEW_CHARS:
        return words
    return f"{words[: MAX_PREVIEW_CHARS - 1].rstrip()}…"
