"""The domain's values, frozen, and the Protocols through which a lower layer reaches a higher one.

Imports nothing of the project but the translator. Times are seconds since the epoch (UTC) unless a name says
otherwise; tokens are the server's counts, None where it gave none.
"""

import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from bot.translations.translator import Translatable, Translator

Role = Literal["system", "user", "assistant", "tool"]
ItemKind = Literal["update", "resume", "reminder", "task", "hook", "system"]
ItemShape = Literal[
    "text", "deep", "command", "new", "tap", "stop", "edit", "overflow", "guest", "unaddressed", "other"
]
CallPurpose = Literal["turn", "summary", "task", "warmup", "probe", "bench", "decision", "address"]
ResultOutcome = Literal["ok", "error", "refused", "timeout", "interrupted", "unknown"]
RefusalReason = Literal[
    "arguments",
    "no_tool",
    "repeat",
    "too_many",
    "suspended",
    "not_granted",
    "address",
    "guest",
    "nobody",
    "denied",
    "expired",
    "stopped",
    "changed",
]
"""Why a tool call was not run; bot.usage.refusals has the words for each."""
CallOutcome = Literal["ok", "cut", "cancelled", "failed"]
EndpointRole = Literal["main", "fallback"]  # which of the two endpoints answers
AttachmentKind = Literal["image", "document", "sound"]
FileKind = Literal["photo", "document", "voice", "too_large"]  # how a file for the person is sent, if at all
PartKind = Literal["text", "photo", "document", "voice", "album"]

NotifyAdmins = Callable[[str, Translatable], Awaitable[None]]
"""Posts a text about a subject to all admins, each in their language; the same text about it only once."""

DAY_SECONDS: Final = 86_400
MAX_TURN_SECONDS: Final = DAY_SECONDS
"""No turn works longer, and no call takes longer with its wait: searches in the ledger rely on it."""
BRAKE_FINISH_REASON: Final = "brake"  # of a reply that our side cut short
HOOK_SECRET_PREFIX: Final = "hook_"  # noqa: S105  # a mark, no secret
"""Secrets of hooks begin so, and are known by it where somebody quotes them."""
MAX_BLOCK_TIMES: Final = 64  # of one call; servers that send token by token would fill the ledger

# Lower goes first when seats are short; the endpoint gets the same numbers.
PEOPLE_PRIORITY: Final = 0
TASKS_PRIORITY: Final = 1
SUMMARIES_PRIORITY: Final = 2
WARMUP_PRIORITY: Final = 3

_PRIVATE_GUEST_CHATS: Final = 2**60  # chat ids have 52 bits
SHARE_COUNT: Final = 32  # into which chats are divided among replicas; more than any number of these


def compute_share(chat: int) -> int:
    """Return the share a chat belongs to, from 0; the same in every process and version."""
    return zlib.crc32(str(chat).encode()) % SHARE_COUNT


@dataclass(frozen=True, slots=True)
class Lane:
    """The unit within which order holds: a chat and, in forums and private topics, one topic of it."""

    chat: int
    topic: int | None = None

    @property
    def is_group(self) -> bool:
        """Whether its chat is a group's; a private chat has the number of its person."""
        return self.chat < 0

    @property
    def is_guest(self) -> bool:
        """Whether its person asks in it from a chat that the assistant is no member of."""
        return self.topic is not None and self.topic < 0

    @property
    def paced_chat(self) -> int:
        """The chat whose limits count what is shown there: for a guest's lane that chat, below zero."""
        if self.topic is not None and self.is_guest:
            return self.topic
        return self.chat

    @property
    def share(self) -> int:
        """The share its chat belongs to."""
        return compute_share(self.chat)

    @classmethod
    def for_guest(cls, person: int, chat: int) -> "Lane":
        """The lane of what a person asks in a chat that the assistant is no member of.

        Its chat is the person's private one. That other chat stands as its topic, below zero, which no topic
        of Telegram's is; the number of a private chat is moved out of the way of those of groups.
        """
        return cls(person, chat if chat < 0 else -chat - _PRIVATE_GUEST_CHATS)

    @property
    def key(self) -> str:
        """The lane as the database stores it: `chat` or `chat:topic`."""
        if self.topic is None:
            return str(self.chat)
        return f"{self.chat}:{self.topic}"

    @classmethod
    def parse(cls, key: str) -> "Lane":
        """Parse what `key` returns."""
        chat, _, topic = key.partition(":")
        return cls(int(chat), int(topic) if topic else None)


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Stored work. A control item has no lane and is taken at once.

    `taken_at` is when this attempt took it. `has_turn`: its turn began in an earlier attempt and continues;
    `stored_spans` is what that attempt measured, read by `bot/usage`. `job` is the job whose due time, at
    `due_at`, this is. `share`: of its chat.
    """

    id: int
    kind: ItemKind
    shape: ItemShape
    lane: Lane | None
    sender: int | None
    body: Mapping[str, Any]
    attempt: int
    stale: bool
    received_at: float
    taken_at: float = 0.0
    has_turn: bool = False
    stored_spans: str | None = None
    job: int | None = None
    due_at: float | None = None
    share: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request of the model to run a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image as the model gets it: the bytes of a small file of this media type, such as `image/jpeg`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call; `text` is what the model reads.

    `full_text` is the result before it was cut, as far as it is stored. `full_length` is its length in
    characters, None if nothing was cut. `images` come after the text; `files` are for the person. `failure`
    is the error that the tool raised, for its author; it is not stored. `refusal`: why it was
    not run, if it was refused.
    """

    call: ToolCall
    text: str
    outcome: ResultOutcome
    full_text: str | None = None
    full_length: int | None = None
    images: tuple[Image, ...] = ()
    files: "tuple[OutgoingFile, ...]" = ()
    failure: str = ""
    refusal: RefusalReason | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A stored attachment: an image as the model gets it, a document or a sound as its text.

    The prompt holds an excerpt of that text, as part of the message.
    """

    kind: AttachmentKind
    name: str
    media_type: str
    data: bytes | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt. An assistant message has text or calls, never both: templates misrender that.

    `images` belong to a user message and stand before its text, or to a tool's and come after its response.
    """

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    reasoning: str | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's token counts of a model call.

    None is unknown, and `missing_reason` says why. `partial`: the call was cut.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    partial: bool = False
    missing_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CallTimes:
    """When a model call was created, got its seat, sent its blocks, and ended.

    `blocks`: those of the first MAX_BLOCK_TIMES blocks.
    """

    created: float
    seat: float | None = None
    first_block: float | None = None
    last_block: float | None = None
    ended: float | None = None
    blocks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The raw result of one model call; the arguments of `calls` are merged by index.

    `finish_reason` is None if the stream ended without one, "brake" if we closed it because the model thought
    too long. `server_timings` are the server's own, in ms. `model` is the name the server gives.
    """

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    usage: Usage
    times: CallTimes
    blocks: int = 0
    request_id: str | None = None
    server_timings: Mapping[str, float] | None = None
    fingerprint: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `tools`: name, description and parameters of each; `session` groups a conversation.

    A reply that is only thought is closed after `max_thinking_tokens`. `continue_final_message`: the last
    message is the model's own, and the reply continues in the middle of it.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    tool_choice: Literal["auto", "none"]
    thinking: bool
    max_tokens: int
    session: str
    lane: str
    priority: int = PEOPLE_PRIORITY
    max_thinking_tokens: int | None = None
    continue_final_message: bool = False


class LanguageModel(Protocol):
    """An endpoint that answers one request per seat at a time."""

    @property
    def has_free_seat(self) -> bool:
        """Whether a seat is free and nobody waits for one."""
        ...

    async def call(
        self,
        request: ModelRequest,
        on_block: Callable[[str], None],
        on_seat: Callable[[], None],
        on_cut: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """Wait for a seat, stream, and return the whole reply.

        `on_seat` is called when the seat is taken, `on_block` after each block but the last, with all text so
        far as users may see it. Raises CallFailed with the partial reply. Cancelling closes the request at
        once and calls `on_cut` with the partial reply before CancelledError propagates.
        """
        ...

    def queue_position(self, lane: str) -> int | None:
        """Number of calls that wait for a seat before this lane's; None if it does not wait."""
        ...


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message; `data` is at most 64 bytes."""

    label: str
    data: str


@dataclass(frozen=True, slots=True)
class Part:
    """One Telegram message to send: plain text, entities in Bot API JSON (UTF-16 units), rows of buttons.

    `kind`: unless it is a text, its files are stored beside it, and `text` is their caption.
    `secret`: words of the text that are not kept once it was sent.
    """

    text: str
    entities: tuple[Mapping[str, Any], ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    silent: bool = False
    kind: PartKind = "text"
    secret: str = ""


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file for the person. `data` None: its bytes are not loaded, or no longer stored.

    `file_id` is Telegram's, once it was sent; `id` that of its row, once it is stored.
    """

    name: str
    kind: FileKind
    size: int
    caption: str = ""
    data: bytes | None = None
    file_id: str | None = None
    id: int = 0


FilePart = tuple[Part, tuple[OutgoingFile, ...]]
"""A message, and the files that it brings (none: it is a text about them)."""


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of a kept file; `noun` is what its pages are called, as in `slide 4`; None: it has none."""

    name: str
    noun: str | None
    number: int


@dataclass(frozen=True, slots=True)
class AnswerLinks:
    """Which links of an answer are real.

    `find_known` chooses, of some addresses, those that a tool returned or a person wrote, `find_returned`
    those that a tool of this turn returned; both read all texts of the turn, so call them in a thread.
    `cited` are addresses by the numbers under which the model read them (None: it searched for nothing), and
    `opened` those of pages that this turn opened, after redirects. `file_pages` are those of kept files that
    it looked up.
    """

    find_known: Callable[[Collection[str]], Collection[str]]
    find_returned: Callable[[Collection[str]], Collection[str]]
    cited: Mapping[int, str] | None = None
    opened: tuple[str, ...] = ()
    file_pages: tuple[FilePage, ...] = ()


class FirstSend(Protocol):
    """The next call in a lane, kept for an answer that is being stored."""

    def take(self, row: int, part: Part, *, has_more: bool) -> None:
        """Send this part, whose row is stored as being sent; `has_more`: others follow it."""
        ...


class Channel(Protocol):
    """Shows one turn to its user. Nothing here waits for Telegram; the caller stores what must last."""

    @property
    def translate(self) -> Translator:
        """Translates the gateway's own words into the user's language."""
        ...

    def begin(self, status: str | None = None) -> None:
        """Mark the turn as running: show a sign of life unless something is shown within 300 ms.

        `status` stands below the text until the final one comes, where no other status does.
        """
        ...

    def show(self, text: str) -> None:
        """Show the latest snapshot (Markdown) of an answer still being written."""
        ...

    def show_status(self, line: str | None) -> None:
        """Show one line that says why the user waits, until the answer replaces it. None removes it."""
        ...

    def show_queue_place(self, line: str | None) -> None:
        """Show the place in line, in the draft or else as a status line; leaves nothing behind.

        None: the seat is taken.
        """
        ...

    def show_tool_progress(self, line: str | None) -> None:
        """Show what a running tool reports, as the place in line is shown. None: it has ended."""
        ...

    def set_links(self, links: AnswerLinks) -> None:
        """Say which links of the snapshots that follow are real."""
        ...

    async def render_parts(
        self,
        text: str,
        *,
        silent: bool = False,
        buttons: tuple[tuple[Button, ...], ...] = (),
        links: AnswerLinks | None = None,
    ) -> tuple[Part, ...]:
        """Render the final text (Markdown) as parts; the buttons go under the last one.

        `links` says which links are real, and what the sources are; None: all are.
        """
        ...

    async def build_files(self, text: str) -> tuple[OutgoingFile, ...]:
        """Build files of the code and tables of a final text (Markdown) that are longer than a message."""
        ...

    def reserve_send(self) -> AbstractContextManager[FirstSend | None]:
        """Keep the chat's next call for the answer that the block stores, until `end`.

        None: another call comes first, or has to wait. What was taken is released if the block raises.
        """
        ...

    def end(self) -> None:
        """Show nothing else of this turn; its final parts are committed, or it has none."""
        ...


class ChannelFactory(Protocol):
    """Opens the channel of a turn that answers inbox item `item`; a `silent` one makes no sound.

    `reply_to`: the message that the first one of the turn replies to.
    """

    def __call__(
        self, lane: Lane, item: int, *, silent: bool, reply_to: int | None, translate: Translator
    ) -> Channel: ...


@dataclass(slots=True)
class Changes:
    """What a transaction leaves to be done; the functions that write rows note it.

    `outbox_lanes`: where something is to be sent or edited, in the order of their first rows.
    `inbox_shares`: the shares of items that may be claimed.
    `has_due_times`: when a job is due next has changed. `has_questions`: people were asked something that
    expires.
    """

    outbox_lanes: dict[Lane, None] = field(default_factory=dict)
    inbox_shares: set[int] = field(default_factory=set)
    has_due_times: bool = False
    has_questions: bool = False

    def note_outbox(self, lane: Lane) -> None:
        """Something is to be sent or edited in this lane."""
        self.outbox_lanes[lane] = None

    def note_inbox(self, shares: Iterable[int]) -> None:
        """Items of these shares may be claimed."""
        self.inbox_shares.update(shares)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be done."""
        return not (self.outbox_lanes or self.inbox_shares or self.has_due_times or self.has_questions)


class CommitListener(Protocol):
    """Does what commits leave to be done: the database tells it, and who writes rows wakes nobody."""

    def build_notifications(self, changes: Changes) -> Sequence[str]:
        """What other processes are told by the same commit, where the database can tell them."""
        ...

    def note_commit(self, changes: Changes) -> None:
        """Hear of what was committed, or may have been: the outcome of a commit can be unknown."""
        ...


class GiveUp(Protocol):
    """Sets items aside, with the reason."""

    async def __call__(self, items: tuple[InboxItem, ...], reason: str) -> None: ...


class Runner(Protocol):
    """Handles inbox items of one kind. The items of one call belong together (a lane's waiting messages)."""

    async def __call__(self, items: tuple[InboxItem, ...]) -> None: ...
