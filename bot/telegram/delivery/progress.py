"""What a running turn shows of itself, and which call comes next to show it.

Pure: the time is passed in (seconds of the sender's monotonic clock). Only the latest snapshot counts; none
is queued.
"""

import math
from dataclasses import dataclass, field, replace

from bot.domain import AnswerLinks, Button, Lane, Part
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.delivery.renderer import Snapshot
from bot.telegram.formatting.render import BlockCache, Piece
from bot.translations.translator import ENGLISH, Translator, translatable

STOP_PREFIX = "stop:"
"""The callback data of the Stop button is this, followed by the inbox item of the turn."""

YOUR_TURN = translatable("It's your turn; I'm on it.")
"""Replaces the place in line in a message; where only a draft showed the place, nothing needs to be said."""

_ANNOUNCE_AFTER_SECONDS = 0.3  # what is over sooner is not announced
_DRAFT_REFRESH_SECONDS = 20.0
_TYPING_REFRESH_SECONDS = 4.5
_SPARSE_REFRESH_SECONDS = 15.0
_DENSE_TYPING_COUNT = 13  # typing signs before they become sparse
_DENSE_TYPING_COUNT_IN_GROUPS = 3
_MAX_TYPING_SECONDS = 1800.0  # a turn that never ends must not seem to be typing for ever


@dataclass(slots=True)
class MessageState:
    """A part of the turn that has a row in the outbox.

    `message_id`: its message (None: unknown).
    `part`: what the message shows (None: unknown).
    `called_at`: when its last call was made.
    `is_status`: it shows only a status line.
    `sent_at`: when it was sent (infinity: by an earlier process).
    """

    row: int
    message_id: int | None
    part: Part | None = None
    called_at: float = 0.0
    is_status: bool = False
    sent_at: float = math.inf


@dataclass(frozen=True, slots=True)
class SendTyping:
    """Show that the bot is at work; `text` is what a draft says about it."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send this part for the first time."""

    number: int
    part: Part
    is_status: bool


@dataclass(frozen=True, slots=True)
class EditMessage:
    """Make this message show another text."""

    message: MessageState
    part: Part
    is_status: bool


@dataclass(frozen=True, slots=True)
class DeleteMessage:
    """Delete a status line that nothing has replaced."""

    message: MessageState


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Make no call before this moment."""

    until: float


ProgressStep = SendTyping | SendMessage | EditMessage | DeleteMessage | WaitUntil


@dataclass(slots=True)
class TurnProgress:
    """What one turn shows.

    `reply_to`: the message that the first one replies to.
    `text`: the latest snapshot (Markdown).
    `links`: which links of it are real (None: all).
    `status`: why the person waits.
    `lasting_status`: stands where no other status does, until the turn is over.
    `draft_status`: the place in line, or what a tool reports; in the draft while there is one, else like
    `status`; in a group nowhere.
    `has_earlier_message`: the turn had a message before it was taken up again (None: not looked up yet).
    `block_cache`: what of its text was rendered before.
    """

    lane: Lane
    item: int
    silent: bool
    limits: RateLimits
    translate: Translator = ENGLISH
    reply_to: int | None = None
    text: str = ""
    links: AnswerLinks | None = None
    status: str | None = None
    draft_status: str | None = None
    lasting_status: str | None = None
    is_over: bool = False
    has_earlier_message: bool | None = None
    messages: list[MessageState] = field(default_factory=list)
    block_cache: BlockCache = field(default_factory=dict)
    _started_at: float | None = None
    _has_drafts: bool = True
    _draft_text: str = ""  # what the draft says
    _typing_sent_at: float = 0.0
    _next_typing_at: float = 0.0
    _typing_count: int = 0
    _not_before: float = 0.0
    _snapshot: Snapshot = field(default_factory=Snapshot)  # what was rendered last
    _parts: tuple[Part, ...] = ()  # what it looks like

    def begin(self, now: float) -> None:
        """Note that the turn has been working since `now`."""
        if self._started_at is None:
            self._started_at = now
            self._next_typing_at = now + _ANNOUNCE_AFTER_SECONDS

    def set_queue_status(self, status: str | None, now: float) -> None:
        """Change the place in line; None: the wait is over, which is not shown if the turn ends at once."""
        if status is None and self._draft_line:
            self.hold(max(self._not_before, now + _ANNOUNCE_AFTER_SECONDS))
            if self.messages and self.messages[0].is_status:
                self.status = self.translate(YOUR_TURN)
        self.draft_status = status

    def record_typing(self, now: float, *, is_draft: bool, draft_text: str | None = "") -> None:
        """Note that a draft or typing sign was sent; `draft_text` is None if it is unknown what it says."""
        self._typing_count += 1
        self._has_drafts = is_draft
        self._typing_sent_at = now
        if draft_text is not None:
            self._draft_text = draft_text
        self._next_typing_at = now + self._get_refresh_seconds(is_draft=is_draft)

    def _get_refresh_seconds(self, *, is_draft: bool) -> float:
        """Return how long a draft or a typing sign lasts; typing becomes sparse after a while."""
        if is_draft:
            return _DRAFT_REFRESH_SECONDS
        dense_count = _DENSE_TYPING_COUNT_IN_GROUPS if self.lane.is_group else _DENSE_TYPING_COUNT
        if self._typing_count < dense_count:
            return _TYPING_REFRESH_SECONDS
        return _SPARSE_REFRESH_SECONDS

    def forget_draft(self) -> None:
        """Note that a message was sent in the lane, for which Telegram removes the draft."""
        if self._typing_count:
            self._draft_text = ""
            self._next_typing_at = 0.0

    def mark_final(self, row: int) -> None:
        """Note that the message of this row has its final text: it no longer shows a status."""
        for message in self.messages:
            message.is_status &= message.row != row

    @property
    def leftover_status(self) -> MessageState | None:
        """The status line that is left of a turn which ended without a text."""
        if not self.is_over:
            return None
        return next((message for message in self.messages if message.is_status), None)

    def find_long_status(self, now: float) -> MessageState | None:
        """Return the status line that stands so long that its person may have put the phone away."""
        long_ago = now - self.limits.long_status_seconds
        return next(
            (message for message in self.messages if message.is_status and message.sent_at < long_ago), None
        )

    def hold(self, until: float) -> None:
        """Make no call before this moment."""
        self._not_before = until

    def get_shown_part(self, row: int) -> Part | None:
        """Return what the message of this row is known to show."""
        return next((message.part for message in self.messages if message.row == row), None)

    def find_unrendered(self) -> Snapshot | None:
        """Return what must be rendered before it can be shown; None: nothing has changed."""
        snapshot = Snapshot(self.text, self._get_status_below(), self.links)
        if snapshot == self._snapshot:
            return None
        return snapshot

    def set_pieces(self, snapshot: Snapshot, pieces: tuple[Piece, ...]) -> None:
        """Note what this snapshot looks like; that is shown until another one is rendered."""
        parts = [
            Part(piece.text, piece.entities, silent=self.silent or number > 0)
            for number, piece in enumerate(pieces)
        ]
        if parts:
            stop_label = "⏹ " + self.translate("Stop")
            parts[-1] = replace(parts[-1], buttons=((Button(stop_label, f"{STOP_PREFIX}{self.item}"),),))
        self._snapshot = snapshot
        self._parts = tuple(parts)
        if self.lane.is_guest:  # one message, without buttons
            self._parts = tuple(replace(part, buttons=()) for part in parts[:1])

    def get_next_step(self, now: float) -> ProgressStep | None:
        """Return the call that shows what was rendered; None: nothing until something changes."""
        step = self._find_step_towards_parts(now) if self._parts else self._find_step_without_text(now)
        due_at = max(self._not_before, self._get_due_at(step))
        if step is not None and not isinstance(step, WaitUntil) and due_at > now:
            return WaitUntil(due_at)
        return step

    def _find_step_towards_parts(self, now: float) -> ProgressStep | None:
        is_status = not self._snapshot.text and not self.lane.is_guest  # a guest cannot delete it
        long_status = None if is_status else self.find_long_status(now)
        if long_status is not None and long_status.message_id is not None:
            return DeleteMessage(long_status)
        for message, part in zip(self.messages, self._parts, strict=False):
            if message.message_id is not None and message.part != part:
                return EditMessage(message, part, is_status=is_status)
        number = len(self.messages)
        # What is missing is sent, or asked about, at the end; until then nothing may stand in its place.
        is_missing = any(message.message_id is None for message in self.messages)
        if number >= len(self._parts) or is_missing:
            return None
        return SendMessage(number, self._parts[number], is_status=is_status)

    def _find_step_without_text(self, now: float) -> ProgressStep | None:
        if not self.messages:
            return self._find_typing_step(now)
        first = self.messages[0]
        if first.is_status and first.message_id is not None:
            return DeleteMessage(first)
        return None

    def _find_typing_step(self, now: float) -> ProgressStep | None:
        text = self._draft_line or ""
        if self._started_at is None or self.lane.is_guest:
            return None
        # An edit leaves a draft where it is: below the answer that an earlier message becomes.
        is_quiet = self.has_earlier_message or now > self._started_at + _MAX_TYPING_SECONDS
        if is_quiet and not (text or self._draft_text):
            return None
        if text == self._draft_text:
            due_at = self._next_typing_at
        else:
            due_at = self._typing_sent_at + self.limits.get_edit_gap(self.lane.paced_chat, len(text))
        if now >= due_at:
            return SendTyping(text)
        return WaitUntil(due_at)

    def _get_due_at(self, step: ProgressStep | None) -> float:
        """Return the moment from which the step keeps the gap between edits of one message."""
        match step:
            case EditMessage(message, part):
                return message.called_at + self.limits.get_edit_gap(self.lane.paced_chat, len(part.text))
            case DeleteMessage(message):
                return message.called_at + self.limits.get_edit_gap(self.lane.chat, 0)
        return 0.0

    def _get_status_below(self) -> str | None:
        """Return the line below the text; what a draft can show is none."""
        is_shown = bool(self.text or self.status or self.lasting_status or self.messages)
        if self._has_drafts and self.lane.paced_chat > 0 and not is_shown:
            return None
        place = self.draft_status if self.lane.is_guest else self._draft_line
        return place or self.status or self.lasting_status

    @property
    def _draft_line(self) -> str | None:
        """The line for the draft; in a group it would be one more message for everybody, so there is none."""
        return None if self.lane.is_group else self.draft_status
