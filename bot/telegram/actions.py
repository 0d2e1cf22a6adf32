"""What a command, a tap or a knock is given and what it gives back. The effect, the answer and `done` are one
transaction: an act changes the database only through `call.tx`, and touches the world only through what it
returns.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.db.conversations.chat_settings import Think
from bot.db.engine import Transaction
from bot.db.people.people import Standing
from bot.db.queues.admin_notices import Notices
from bot.db.tools import audit
from bot.db.tools.audit import By
from bot.domain import Button, InboxItem, Lane, Part
from bot.jobs.user_jobs import Diary
from bot.telegram.access import Access
from bot.telegram.best_effort_calls import Gestures
from bot.tool_registry.tool_info import Own
from bot.turns.approvals import Approvals
from bot.turns.context_window import Composition
from bot.turns.endpoints import Endpoint
from bot.turns.runner import Complete
from bot.turns.start import Ask

PAGE = 3500  # UTF-16 units of one message of a list, well under Telegram's 4096
ROWS = 20  # entries of one message of a list


class Turns(Protocol):
    """Whatever answers messages."""

    async def run(self, ask: Ask, complete: Complete | None = None) -> None:
        """Answer, and mark the items done; `complete` adds what has to be fetched first, or answers by
        itself.
        """
        ...

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in the lane if it began before item `before`; False when nothing does."""
        ...

    def go_on(self, lane: Lane) -> None:
        """What the lane's turn may do has changed: it shall wait no longer before it tries."""
        ...


async def _nothing_new() -> None:
    """There is nobody to take anything over."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What acts can reach beside their transaction.

    `repeatable(tool)` says whether running the tool again does no harm; `bot_name` is the username, without
    @. `thinking` is what the house does where a chat has not said; `composition` tells of a lane's next
    prompt; `approvals` hears what people answer about tools, `diary` keeps what is to be done later. `second`
    is the endpoint beside the first, if there is one. `canvases_a_day` is what a member may use (None: as
    many as they like), `limits_changed` hears that an admin has set another; `own` are the house's own tools,
    `renew` takes over at once what has changed about tools (else it is noticed within two seconds).
    `copies_until` says when the newest copy of the database is deleted (None: there is none).
    """

    access: Access
    notices: Notices
    turns: Turns
    gestures: Gestures
    wake_worker: Callable[[], None]
    wake_sender: Callable[[Lane], None]
    repeatable: Callable[[str], bool]
    bot_name: str
    thinking: Think
    composition: Callable[[Transaction, Lane], Awaitable[Composition]]
    approvals: Approvals
    diary: Diary
    second: Endpoint | None = None
    canvases_a_day: int | None = None
    own: Own = field(default_factory=dict)
    limits_changed: Callable[[], None] = lambda: None
    renew: Callable[[], Awaitable[None]] = _nothing_new
    copies_until: Callable[[], float | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Call:
    """One act at work: who did what, where. `words` is what follows a command, or what a button carried."""

    tx: Transaction
    reach: Reach
    item: InboxItem
    lane: Lane
    person: int
    name: str
    standing: Standing | None
    words: str
    now: float

    @property
    def by(self) -> By:
        """Who changes something by this."""
        return By(self.person, "telegram")

    async def note(
        self, what: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Write down that an admin changed something: what was done to what, and what was before and after."""
        await audit.note(self.tx, self.by, what, subject, change=(before, after), now=self.now)


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes of an act: messages, a short line over the chat (taps only), what the tapped message
    becomes.

    `then` is done once the transaction is committed; what has changed about tools is taken over next, if it
    `renews`; `gestures` come after that.
    """

    parts: tuple[Part, ...] = ()
    toast: str = ""
    redraw: Part | None = None
    then: tuple[Callable[[], object], ...] = ()
    renews: bool = False
    gestures: tuple[Callable[[], Awaitable[None]], ...] = ()


Act = Callable[[Call], Awaitable[Answer]]

TOO_OLD = Answer(toast="This button is too old.")


def say(text: str, *rows: tuple[Button, ...], code: str = "") -> Answer:
    """An answer of one short message; `code` is a word of it that a tap copies."""
    return Answer(parts=(part(text, *rows, code=code),))


def part(text: str, *rows: tuple[Button, ...], code: str = "") -> Part:
    """One short message with rows of buttons; `code` is a word of it that a tap copies."""
    entities: tuple[dict[str, object], ...] = ()
    if code:
        entities = ({"type": "code", "offset": units(text[: text.index(code)]), "length": units(code)},)
    return Part(text, entities, rows)


def units(text: str) -> int:
    """Length as Telegram counts it, in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def pages(
    heading: str, entries: Iterable[tuple[str, tuple[Button, ...]]], *, in_a_row: int
) -> tuple[Part, ...]:
    """A list as messages: lines with the buttons that belong to them under the message they stand in."""
    found: list[Part] = []
    lines = [heading]
    buttons = list[Button]()
    for line, own in entries:
        if len(lines) > ROWS or units("\n".join([*lines, line])) > PAGE:
            found.append(_page(lines, buttons, in_a_row))
            lines = []
            buttons = []
        lines.append(line)
        buttons.extend(own)
    return (*found, _page(lines, buttons, in_a_row))


def _page(lines: Sequence[str], buttons: Sequence[Button], in_a_row: int) -> Part:
    rows = tuple(tuple(buttons[at : at + in_a_row]) for at in range(0, len(buttons), in_a_row))
    return Part("\n".join(lines), buttons=rows)


async def nothing(_call: Call) -> Answer:
    """What needs no answer."""
    return Answer()
