"""The words of the house as frozen values, and the Protocols by which a lower floor reaches a higher one.

Imports nothing of the house. Times are seconds since the epoch (UTC) unless a name says otherwise; tokens are
the server's counts and None where it gave none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
ItemKind = Literal["update", "resume", "reminder", "task", "house"]
ItemShape = Literal["text", "deep", "command", "new", "tap", "stop", "overflow", "other"]
CallPurpose = Literal["turn", "summary", "task", "warmup", "probe", "bench", "decision"]
ResultOutcome = Literal["ok", "error", "refused", "timeout", "interrupted", "unknown"]
CallOutcome = Literal["ok", "cut", "cancelled", "failed"]
EndpointRole = Literal["main", "fallback"]  # of the two endpoints a turn may be answered by
AttachmentKind = Literal["image", "document", "sound"]

CANVAS_TOKENS: Final = 256  # tokens denoised together

# Who goes first when seats are short; the endpoint is told the same numbers.
PEOPLE_PRIORITY: Final = 0
TASKS_PRIORITY: Final = 1
SUMMARIES_PRIORITY: Final = 2
WARMUP_PRIORITY: Final = 3


@dataclass(frozen=True, slots=True)
class Lane:
    """Where order holds: a chat and, in forums and private topics, one topic of it."""

    chat: int
    topic: int | None = None

    @property
    def key(self) -> str:
        """The lane as one string, as the database keeps it: `chat` or `chat:topic`."""
        if self.topic is None:
            return str(self.chat)
        return f"{self.chat}:{self.topic}"

    @classmethod
    def parse(cls, key: str) -> "Lane":
        """The lane of a key made by `key`."""
        chat, _, topic = key.partition(":")
        return cls(int(chat), int(topic) if topic else None)


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something written down to be done. A control item has no lane and is taken at once; `taken_at`: this
    time.

    `begun`: its turn was begun before, and goes on; `measured` is what is stored of how long that has taken,
    which the usage room reads. `job` is the job whose due time, at `due_at`, this is.
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


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request of the model to run a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as the model gets it: the bytes of a file of this media type, such as `image/jpeg`, made
    small.
    """

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call, in the words the model will read.

    `whole` is what was cut to that, as far as it is kept; `size` is how many characters there were, None: as
    many as there are. `images` are shown to it behind the text.
    """

    call: ToolCall
    text: str
    outcome: ResultOutcome
    full_text: str | None = None
    full_length: int | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """What came with a message, as it is kept: an image as the model gets it, a document or a sound as its
    whole text.

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
    """What the server counted for a model call. None is unknown, `missing` says why; `partial`: the call was
    cut.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    partial: bool = False
    missing_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CallTimes:
    """When a model call was created, got its seat, showed its first and last block, and ended."""

    created: float
    seat: float | None = None
    first_block: float | None = None
    last_block: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What one model call gave, before judgement; the arguments of `calls` are merged by index.

    `finish_reason` None: the stream ended without one; "brake": our side closed it, for it thought too long.
    `server`: the server's own timings in ms, if it gave any; `model` is what it says answered.
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
    """One request. `tools` are OpenAI function definitions, byte-stable; `session` groups a conversation.

    `brake`: output tokens after which a reply that is nothing but thought is closed. `continues`: the last
    message is the model's own, and the reply goes on in the middle of it.
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
    """An endpoint that answers one request at a time a seat."""

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

        `on_seat` is called when the seat is taken, `on_block` with all text so far, as a person may see it,
        after each block but the last. Raises CallFailed (see bot.errors) with what had come by then.
        Cancelling it closes the request at once; `on_cut` is then called with what had come by then, before
        CancelledError goes on.
        """
        ...

    def queue_position(self, lane: str) -> int | None:
        """How many calls wait for a seat before this lane's; None if it does not wait."""
        ...


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message; `data` is at most 64 bytes. `primary` only colours it."""

    label: str
    data: str


@dataclass(frozen=True, slots=True)
class Part:
    """One Telegram message as wanted: plain text, entities in Bot API JSON (UTF-16 units), rows of buttons."""

    text: str
    entities: tuple[Mapping[str, Any], ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    silent: bool = False


class Channel(Protocol):
    """The way to a person for one turn. Nothing here waits for Telegram; what must last is stored by the
    caller.
    """

    def begin(self) -> None:
        """The turn works from now on: show a sign of life unless something is shown within 300 ms."""
        ...

    def show(self, text: str) -> None:
        """Latest snapshot (Markdown) of an answer still being written."""
        ...

    def show_status(self, line: str | None) -> None:
        """One line that says why the person waits; edited in place, replaced by the answer. None takes it
        back.
        """
        ...

    def show_queue_place(self, line: str | None) -> None:
        """The place in line: in the draft where there is one, else as `status`; leaves nothing behind. None:
        served.
        """
        ...

    def render_parts(
        self, text: str, *, silent: bool = False, buttons: tuple[tuple[Button, ...], ...] = ()
    ) -> tuple[Part, ...]:
        """The final text (Markdown) as parts; the buttons go under the last one."""
        ...

    def end(self) -> None:
        """The turn's final parts are stored (committed): deliver them, and show nothing else of this turn."""
        ...


class ChannelFactory(Protocol):
    """Opens the channel of a turn: `item` is the inbox item answered; a `silent` one makes no sound."""

    def __call__(self, lane: Lane, item: int, *, silent: bool) -> Channel: ...


class Runner(Protocol):
    """Does what inbox items of one kind ask for. The items of one call belong together (a lane's waiting
    messages).
    """

    async def __call__(self, items: tuple[InboxItem, ...]) -> None: ...
