"""What a running turn shows of itself, and which call would bring that about next.

Pure: the time is passed in (seconds of the sender's steady clock). Only the latest snapshot counts; none is
queued.
"""

from dataclasses import dataclass, field, replace

from bot.domain import Button, Lane, Part
from bot.telegram.delivery.rate_budget import Limits
from bot.telegram.formatting.render import render, snapshot

STOP = "stop:"
"""The callback data of the Stop button is this and the inbox item of the turn."""

SERVED = "It is your turn; I am at it."
"""Takes the place in line off a message that stands already; where a draft told it, nothing needs to be said.
"""

_QUICK = 0.3  # what is over sooner is not announced
_DRAFT_SECONDS = 20.0
_TYPING_SECONDS = 4.5
_SPARSE_SECONDS = 15.0
_LONGEST_SIGNS = 1800.0  # a turn that never ends must not seem to be typing for ever


@dataclass(slots=True)
class Standing:
    """A part that has a row: which message it is (None: nobody knows), what it shows (None: unknown), its
    last call.

    `is_line`: it shows a mere status line.
    """

    row: int
    message_id: int | None
    part: Part | None = None
    at: float = 0.0
    is_line: bool = False


@dataclass(frozen=True, slots=True)
class Sign:
    """Show that the house is at work; `line` is what a draft says of it."""

    line: str = ""


@dataclass(frozen=True, slots=True)
class Open:
    """Send this part for the first time."""

    number: int
    part: Part
    is_line: bool


@dataclass(frozen=True, slots=True)
class Change:
    """Make this message show another text."""

    standing: Standing
    part: Part
    is_line: bool


@dataclass(frozen=True, slots=True)
class TakeBack:
    """The status line is over and nothing has taken its place."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before this moment."""

    until: float


Step = Sign | Open | Change | TakeBack | Wait


@dataclass(slots=True)
class Showing:
    """One turn's way of showing. `text` is the latest snapshot (Markdown), `line` why the person waits.

    `place` is the person's place in line: told in the draft while there is one, else as `line` is.
    """

    lane: Lane
    item: int
    silent: bool
    limits: Limits
    text: str = ""
    line: str | None = None
    place: str | None = None
    is_over: bool = False
    standing: list[Standing] = field(default_factory=list)
    _begun: float | None = None
    _has_drafts: bool = True
    _drawn: str = ""  # what the draft says
    _signed: float = 0.0
    _sign_at: float = 0.0
    _signs: int = 0
    _not_before: float = 0.0
    _rendered: tuple[tuple[str, str | None], tuple[Part, ...]] | None = None

    def begin(self, now: float) -> None:
        """The turn works since `now`."""
        if self._begun is None:
            self._begun = now
            self._sign_at = now + _QUICK

    def queue(self, place: str | None, now: float) -> None:
        """The place in line is another; None: it has come to the person, which need not be said if an end
        follows.
        """
        if place is None and self.place:
            self.hold(max(self._not_before, now + _QUICK))
            if self.standing and self.standing[0].is_line:
                self.line = SERVED
        self.place = place

    def signed(self, now: float, *, draft: bool, says: str | None = "") -> None:
        """A sign of life was given; a draft lasts longer than typing. `says` is None if nobody knows what it
        says.
        """
        self._signs += 1
        self._has_drafts = draft
        self._signed = now
        self._drawn = self._drawn if says is None else says
        dense = 3 if self.lane.chat < 0 else 13
        self._sign_at = now + (
            _DRAFT_SECONDS if draft else _TYPING_SECONDS if self._signs < dense else _SPARSE_SECONDS
        )

    def interrupted(self) -> None:
        """A message has come to the lane, which takes the draft away."""
        if self._signs:
            self._drawn = ""
            self._sign_at = 0.0

    def settled(self, row: int) -> None:
        """The message of this row has its final text: it is no mere line any more."""
        for one in self.standing:
            one.is_line &= one.row != row

    @property
    def left(self) -> Standing | None:
        """The line that a turn has left behind which ended without a text."""
        if self.is_over:
            return next((one for one in self.standing if one.is_line), None)
        return None

    def hold(self, until: float) -> None:
        """Show nothing new before this moment."""
        self._not_before = until

    def stands(self, row: int) -> Part | None:
        """What the message of this row is known to show."""
        return next((one.part for one in self.standing if one.row == row), None)

    def next(self, now: float) -> Step | None:
        """The call to be made now; None: nothing until something changes."""
        wanted = self._wanted()
        step = self._towards(wanted) if wanted else self._away(now)
        at = max(self._not_before, self._due(step))
        if step is not None and not isinstance(step, Wait) and at > now:
            return Wait(at)
        return step

    def _towards(self, wanted: tuple[Part, ...]) -> Step | None:
        for number, part in enumerate(wanted):
            if number == len(self.standing):
                return Open(number, part, is_line=not self.text)
            there = self.standing[number]
            if there.message_id is not None and there.part != part:
                return Change(there, part, is_line=not self.text)
        return None

    def _away(self, now: float) -> Step | None:
        if not self.standing:
            return self._sign(now)
        first = self.standing[0]
        if first.is_line and first.message_id is not None:
            return TakeBack(first)
        return None

    def _sign(self, now: float) -> Step | None:
        line = self.place or ""
        if self._begun is None or (now > self._begun + _LONGEST_SIGNS and not (line or self._drawn)):
            return None
        if line == self._drawn:
            at = self._sign_at
        else:
            at = self._signed + self.limits.gap(self.lane.chat, len(line))
        if now >= at:
            return Sign(line)
        return Wait(at)

    def _due(self, step: Step | None) -> float:
        match step:
            case Change(standing, part):
                return standing.at + self.limits.gap(self.lane.chat, len(part.text))
            case TakeBack(standing):
                return standing.at + self.limits.gap(self.lane.chat, 0)
        return 0.0

    def _wanted(self) -> tuple[Part, ...]:
        key = (self.text, self._below())
        if self._rendered is None or self._rendered[0] != key:
            self._rendered = key, self._parts(key[1])
        return self._rendered[1]

    def _below(self) -> str | None:
        """The line below the text; the place in line is one unless a draft can tell it."""
        in_draft = self._has_drafts and self.lane.chat > 0 and not (self.text or self.line or self.standing)
        if in_draft:
            return self.line
        return self.place or self.line

    def _parts(self, below: str | None) -> tuple[Part, ...]:
        markdown = "\n\n".join(piece for piece in (snapshot(self.text), below) if piece)
        pieces = render(markdown)
        parts = [
            Part(piece.text, piece.entities, silent=self.silent or n > 0) for n, piece in enumerate(pieces)
        ]
        if parts:
            parts[-1] = replace(parts[-1], buttons=((Button("⏹ Stop", f"{STOP}{self.item}"),),))
        return tuple(parts)
