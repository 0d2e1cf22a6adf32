"""What is known after a run: what people wrote and saw, what the database says, and what was done.

Values only; `evidence` collects them, `judge` reads them. Times are Unix time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A message that a person wrote, numbered over all chats in the order of writing.

    `words`: the marks its answer shows, in order; none: any reply will do.
    `is_ordered`: its answer stands behind those of earlier ones.
    `may_be_stopped`: its person stopped it, or tried to.
    """

    number: int
    chat: int
    kind: str
    update_id: int
    written_at: float
    words: tuple[str, ...] = ()
    is_ordered: bool = True
    may_be_stopped: bool = False


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message of the bot that is visible at the end."""

    chat: int
    message_id: int
    text: str
    sent_at: float
    buttons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ButtonTap:
    """A tap on a button of a message with this text."""

    chat: int
    text: str
    button: str
    data: str


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something done to the gateway: a kill, a fault, a lock; `chat` 0 means all."""

    started_at: float
    ended_at: float
    name: str
    chat: int = 0

    @property
    def is_end(self) -> bool:
        """Whether it ended the gateway."""
        return self.name.startswith(("kill", "SIGTERM"))

    @property
    def is_endpoint_fault(self) -> bool:
        return self.name.startswith("model")


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A row of the inbox."""

    id: int
    update_id: int | None
    lane: str | None
    state: str
    turn: int | None = None
    error: str | None = None
    job: int | None = None
    done_at: float | None = None


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A row of the turns; `item` is its first inbox row."""

    id: int
    item: int
    state: str
    ending: str | None
    began_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class OutboxPart:
    """A row of the outbox; `text` None: it was taken back."""

    id: int
    item: int | None
    chat: int
    text: str | None
    is_final: bool
    buttons: tuple[str, ...]
    state: str
    message_id: int | None = None
    about: int | None = None
    copy_of: int | None = None
    error: str | None = None
    made_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A row of the tool calls.

    `number` is that of the message it was made for; `was_asked`: its turn waited for a person.
    """

    turn: int
    number: int
    name: str
    outcome: str | None
    was_asked: bool = False


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A row of the jobs, with the number in its text."""

    id: int
    number: int
    kind: str


@dataclass(frozen=True, slots=True)
class Journal:
    """Everything of a run.

    `bells`: how often the tools of a message took effect, by its number.
    `stops`: chats and moments of what stops a turn.
    `forbidden`: marks that must never be seen, such as those of commands that messages were edited into.
    `odd_updates`: ids of updates that cannot be handled.
    `exit_codes`: of processes that nobody ended.
    `leftovers`: what the database says was left behind.
    """

    requests: tuple[WrittenRequest, ...] = ()
    messages: tuple[SeenMessage, ...] = ()
    taps: tuple[ButtonTap, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    inbox: tuple[InboxRow, ...] = ()
    turns: tuple[TurnRow, ...] = ()
    outbox: tuple[OutboxPart, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    jobs: tuple[StoredJob, ...] = ()
    bells: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stops: tuple[tuple[int, float], ...] = ()
    forbidden: frozenset[str] = frozenset()
    odd_updates: frozenset[int] = frozenset()
    exit_codes: tuple[int, ...] = ()
    leftovers: tuple[str, ...] = ()
