"""What a running turn shows of itself, and which call would bring that about next.

Pure: the time is passed in (seconds of the sender's steady clock). Only the latest snapshot counts; none is
queued.
"""

from dataclasses import dataclass, field, replace

from bot.domain import Button, Lane, Part
from bot.telegram.delivery.rate_budget import RateLimits
from bot.telegram.formatting.render import cut_unfinished, render_markdown

STOP_PREFIX = "stop:"
"""The callback data of the Stop button is this and the inbox item of the turn."""

YOUR_TURN = "It is your turn; I am at it."
"""Takes the place in line off a message that stands already; where a draft told it, nothing needs to be said.
"""

_ANNOUNCE_AFTER_SECONDS = 0.3  # what is over sooner is not announced
_DRAFT_REFRESH_SECONDS = 20.0
_TYPING_REFRESH_SECONDS = 4.5
_SPARSE_REFRESH_SECONDS = 15.0
_MAX_TYPING_SECONDS = 1800.0  # a turn that never ends must not seem to be typing for ever


@dataclass(slots=True)
class MessageState:
    """A part that has a row: which message it is (None: nobody knows), what it shows (None: unknown), its
    last call.

    `is_line`: it shows a mere status line.
    """

    row: int
    message_id: int | None
    part: Part | None = None
    called_at: float = 0.0
    is_status: bool = False


@dataclass(frozen=True, slots=True)
class SendTyping:
    """Show that the house is at work; `line` is what a draft says of it."""

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
    """The status line is over and nothing has taken its place."""

    message: MessageState


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing can be done before this moment."""

    until: float


ProgressStep = SendTyping | SendMessage | EditMessage | DeleteMessage | WaitUntil


@dataclass(slots=True)
class TurnProgress:
    """One turn's way of showing. `text` is the latest snapshot (Markdown), `line` why the person waits.

    `place` is the person's place in line: told in the draft while there is one, else as `line` is.
    """

    lane: Lane
    item: int
    silent: bool
    limits: RateLimits
    text: str = ""
    status: str | None = None
    queue_status: str | None = None
    is_over: bool = False
    messages: list[MessageState] = field(default_factory=list)
    _started_at: float | None = None
    _has_drafts: bool = True
    _draft_text: str = ""  # what the draft says
    _typing_sent_at: float = 0.0
    _next_typing_at: float = 0.0
    _typing_count: int = 0
    _not_before: float = 0.0
    _render_cache: tuple[tuple[str, str | None], tuple[Part, ...]] | None = None

    def begin(self, now: float) -> None:
        """The turn works since `now`."""
        if self._started_at is None:
            self._started_at = now
            self._next_typing_at = now + _ANNOUNCE_AFTER_SECONDS

    def set_queue_status(self, status: str | None, now: float) -> None:
        """The place in line is another; None: it has come to the person, which need not be said if an end
        follows.
        """
        if status is None and self.queue_status:
            self.hold(max(self._not_before, now + _ANNOUNCE_AFTER_SECONDS))
            if self.messages and self.messages[0].is_status:
                self.status = YOUR_TURN
        self.queue_status = status

    def record_typing(self, now: float, *, is_draft: bool, draft_text: str | None = "") -> None:
        """A sign of life was given; a draft lasts longer than typing. `says` is None if nobody knows what it
        says.
        """
        self._typing_count += 1
        self._has_drafts = is_draft
        self._typing_sent_at = now
        self._draft_text = self._draft_text if draft_text is None else draft_text
        dense = 3 if self.lane.chat < 0 else 13
        self._next_typing_at = now + (
            _DRAFT_REFRESH_SECONDS
            if is_draft
            else _TYPING_REFRESH_SECONDS
            if self._typing_count < dense
            else _SPARSE_REFRESH_SECONDS
        )

    def forget_draft(self) -> None:
        """A message has come to the lane, which takes the draft away."""
        if self._typing_count:
            self._draft_text = ""
            self._next_typing_at = 0.0

    def mark_final(self, row: int) -> None:
        """The message of this row has its final text: it is no mere line any more."""
        for one in self.messages:
            one.is_status &= one.row != row

    @property
    def leftover_status(self) -> MessageState | None:
        """The line that a turn has left behind which ended without a text."""
        if self.is_over:
            return next((one for one in self.messages if one.is_status), None)
        return None

    def hold(self, until: float) -> None:
        """Show nothing new before this moment."""
        self._not_before = until

    def get_shown_part(self, row: int) -> Part | None:
        """What the message of this row is known to show."""
        return next((one.part for one in self.messages if one.row == row), None)

    def get_next_step(self, now: float) -> ProgressStep | None:
        """The call to be made now; None: nothing until something changes."""
        wanted = self._render_wanted()
        step = self._find_step_towards(wanted) if wanted else self._find_step_without_text(now)
        at = max(self._not_before, self._get_due_at(step))
        if step is not None and not isinstance(step, WaitUntil) and at > now:
            return WaitUntil(at)
        return step

    def _find_step_towards(self, parts: tuple[Part, ...]) -> ProgressStep | None:
        for number, part in enumerate(parts):
            if number == len(self.messages):
                return SendMessage(number, part, is_status=not self.text)
            there = self.messages[number]
            if there.message_id is not None and there.part != part:
                return EditMessage(there, part, is_status=not self.text)
        return None

    def _find_step_without_text(self, now: float) -> ProgressStep | None:
        if not self.messages:
            return self._find_typing_step(now)
        first = self.messages[0]
        if first.is_status and first.message_id is not None:
            return DeleteMessage(first)
        return None

    def _find_typing_step(self, now: float) -> ProgressStep | None:
        line = self.queue_status or ""
        if self._started_at is None or (
            now > self._started_at + _MAX_TYPING_SECONDS and not (line or self._draft_text)
        ):
            return None
        if line == self._draft_text:
            at = self._next_typing_at
        else:
            at = self._typing_sent_at + self.limits.get_edit_gap(self.lane.chat, len(line))
        if now >= at:
            return SendTyping(line)
        return WaitUntil(at)

    def _get_due_at(self, step: ProgressStep | None) -> float:
        match step:
            case EditMessage(standing, part):
                return standing.called_at + self.limits.get_edit_gap(self.lane.chat, len(part.text))
            case DeleteMessage(standing):
                return standing.called_at + self.limits.get_edit_gap(self.lane.chat, 0)
        return 0.0

    def _render_wanted(self) -> tuple[Part, ...]:
        key = (self.text, self._get_status_below())
        if self._render_cache is None or self._render_cache[0] != key:
            self._render_cache = key, self._render_parts(key[1])
        return self._render_cache[1]

    def _get_status_below(self) -> str | None:
        """The line below the text; the place in line is one unless a draft can tell it."""
        in_draft = self._has_drafts and self.lane.chat > 0 and not (self.text or self.status or self.messages)
        if in_draft:
            return self.status
        return self.queue_status or self.status

    def _render_parts(self, status: str | None) -> tuple[Part, ...]:
        markdown = "\n\n".join(piece for piece in (cut_unfinished(self.text), status) if piece)
        pieces = render_markdown(markdown)
        parts = [
            Part(piece.text, piece.entities, silent=self.silent or n > 0) for n, piece in enumerate(pieces)
        ]
        if parts:
            parts[-1] = replace(parts[-1], buttons=((Button("⏹ Stop", f"{STOP_PREFIX}{self.item}"),),))
        return tuple(parts)
