"""Judges whether messages are fetched, and tells admins in the chat what keeps them away.

Sending works meanwhile, and an owner reads Telegram rather than logs.
"""

import math
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from telegram.error import Conflict

from bot.telegram.client import POLL_SECONDS
from bot.translations.formats import format_span
from bot.translations.translator import DeferredText, Translatable, defer, translatable

RIVAL_CONFLICTS = 3
RIVAL_SECONDS = 120.0
"""So many conflicts within this time are another program; one may be a gateway that has just ended."""

LONG_FLOOD_SECONDS = 60.0  # admins hear of a longer one
FRESH_AFTER_SECONDS = 2.0  # what comes to a poll that waited so long was just sent
CLOCK_SECONDS = 30.0
CLOCK_MESSAGES = 3
"""So many fresh messages that are all so much too old, or of the future, show a wrong clock."""

_REPEAT_SECONDS = 3600.0

_RIVAL = translatable(
    "Another program fetches messages with my bot token, so some of them never reach me. "
    "Stop it, or give one of the two its own bot."
)
_WEBHOOK = translatable(
    "Somebody keeps setting a webhook for me, so messages reach me late or never. Stop that "
    "program, or get me a new token from @BotFather."
)
_CLOCK_AHEAD = translatable(
    "My server's clock is more than half a minute ahead of Telegram's, so reminders come early "
    "and new messages look old. Set it right, preferably with NTP."
)
_CLOCK_BEHIND = translatable(
    "My server's clock is more than half a minute behind Telegram's, so reminders come late. Set "
    "it right, preferably with NTP."
)


class AdminAlarm(Protocol):
    """Notifies admins without the database."""

    async def alert_admins(self, text: Translatable) -> None:
        """Send this to each of them, in their language."""
        ...


class PollWatch:
    """Hears of every poll."""

    def __init__(self, alarm: AdminAlarm) -> None:
        self._alarm = alarm
        self._last_poll_at = time.monotonic()  # Telegram has just answered getMe
        self._flood_ends_at = -math.inf
        self._conflicts: deque[float] = deque(maxlen=RIVAL_CONFLICTS)
        self._fresh_ages = deque[float](maxlen=CLOCK_MESSAGES)
        self._alerted_at: dict[str, float] = {}  # by what was said

    def is_fetching(self) -> bool:
        """Whether a message sent now is fetched by us: a poll ended lately, and nothing holds up the next."""
        now = time.monotonic()
        has_recent_poll = now - self._last_poll_at < 2 * POLL_SECONDS
        return has_recent_poll and now >= self._flood_ends_at and not self._has_rival(now)

    def forget_conflicts(self) -> None:
        """What ended the last run was perhaps another replica."""
        self._conflicts.clear()

    def note_success(self) -> None:
        self._last_poll_at = time.monotonic()

    async def note_flood(self, seconds: float) -> None:
        """Telegram wants no poll for so long."""
        if seconds >= LONG_FLOOD_SECONDS:
            self._flood_ends_at = time.monotonic() + seconds
            text = defer(
                "Telegram won't let me fetch messages for {time}. They wait there, and I'll "
                "answer them afterwards.",
                time=partial(format_span, seconds=seconds, unit="minute"),
            )
            await self._alert(text)

    async def note_conflict(self, error: Conflict) -> None:
        """Polls that succeed in between change nothing: two programs share the updates."""
        now = time.monotonic()
        self._conflicts.append(now)
        if self._has_rival(now):
            await self._alert(defer(_WEBHOOK if is_about_webhook(error) else _RIVAL))

    async def note_messages(self, waited_seconds: float, ages: Sequence[float]) -> None:
        """A poll that waited so long brought messages of these ages in seconds, by this machine's clock."""
        if not ages or waited_seconds < FRESH_AFTER_SECONDS:
            return
        self._fresh_ages.append(min(ages))
        if len(self._fresh_ages) < CLOCK_MESSAGES:
            return
        if min(self._fresh_ages) > CLOCK_SECONDS:
            await self._alert(defer(_CLOCK_AHEAD))
        if max(self._fresh_ages) < -CLOCK_SECONDS:
            await self._alert(defer(_CLOCK_BEHIND))

    def _has_rival(self, now: float) -> bool:
        return len(self._conflicts) == RIVAL_CONFLICTS and now - self._conflicts[0] < RIVAL_SECONDS

    async def _alert(self, alert: DeferredText) -> None:
        now = time.monotonic()
        if now - self._alerted_at.get(alert.text, -math.inf) >= _REPEAT_SECONDS:
            self._alerted_at[alert.text] = now
            await self._alarm.alert_admins(alert)


def is_about_webhook(error: Conflict) -> bool:
    """Whether a webhook is in the way, not another poll."""
    return "webhook" in str(error).lower()
