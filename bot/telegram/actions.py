"""What a command, a tap or a knock is given and what it gives back. The effect, the answer and `done` are one
transaction: an act changes the database only through `call.tx`, and touches the world only through what it
returns.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.db.conversations.chat_settings import ThinkMode
from bot.db.engine import Transaction
from bot.db.people.people import RoleOrBlocked
from bot.db.queues.admin_notices import AdminNotices
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.domain import Button, InboxItem, Lane, Part
from bot.jobs.user_jobs import UserJobs
from bot.telegram.access import Access
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.tool_registry.tool_info import BuiltinTools
from bot.turns.approvals import Approvals
from bot.turns.context_window import PromptBreakdown
from bot.turns.endpoints import ModelEndpoint
from bot.turns.runner import RequestCompleter
from bot.turns.start import TurnRequest

MAX_PAGE_UNITS = 3500  # UTF-16 units of one message of a list, well under Telegram's 4096
MAX_PAGE_ENTRIES = 20  # entries of one message of a list


class TurnService(Protocol):
    """Whatever answers messages."""

    async def run(self, request: TurnRequest, complete: RequestCompleter | None = None) -> None:
        """Answer, and mark the items done; `complete` adds what has to be fetched first, or answers by
        itself.
        """
        ...

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in the lane if it began before item `before`; False when nothing does."""
        ...

    def wake(self, lane: Lane) -> None:
        """What the lane's turn may do has changed: it shall wait no longer before it tries."""
        ...


async def _reload_nothing() -> None:
    """There is nobody to take anything over."""


@dataclass(frozen=True, slots=True)
class ActionDependencies:
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
    notices: AdminNotices
    turns: TurnService
    best_effort_calls: BestEffortCalls
    wake_worker: Callable[[], None]
    wake_sender: Callable[[Lane], None]
    is_repeatable: Callable[[str], bool]
    bot_name: str
    default_thinking: ThinkMode
    load_prompt_breakdown: Callable[[Transaction, Lane], Awaitable[PromptBreakdown]]
    approvals: Approvals
    user_jobs: UserJobs
    fallback_endpoint: ModelEndpoint | None = None
    canvases_per_day: int | None = None
    builtin_tools: BuiltinTools = field(default_factory=dict)
    on_limits_changed: Callable[[], None] = lambda: None
    reload_tools: Callable[[], Awaitable[None]] = _reload_nothing
    backups_kept_until: Callable[[], float | None] = lambda: None


@dataclass(frozen=True, slots=True)
class ActionContext:
    """One act at work: who did what, where. `words` is what follows a command, or what a button carried."""

    tx: Transaction
    deps: ActionDependencies
    item: InboxItem
    lane: Lane
    person: int
    name: str
    role: RoleOrBlocked | None
    args: str
    now: float

    @property
    def actor(self) -> Actor:
        """Who changes something by this."""
        return Actor(self.person, "telegram")

    async def record_audit(
        self, action: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Write down that an admin changed something: what was done to what, and what was before and after."""
        await audit.record(self.tx, self.actor, action, subject, change=(before, after), now=self.now)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What comes of an act: messages, a short line over the chat (taps only), what the tapped message
    becomes.

    `then` is done once the transaction is committed; what has changed about tools is taken over next, if it
    `renews`; `gestures` come after that.
    """

    parts: tuple[Part, ...] = ()
    toast: str = ""
    replacement: Part | None = None
    after_commit: tuple[Callable[[], object], ...] = ()
    changes_tools: bool = False
    best_effort_calls: tuple[Callable[[], Awaitable[None]], ...] = ()


Action = Callable[[ActionContext], Awaitable[ActionResult]]

BUTTON_EXPIRED = ActionResult(toast="This button is too old.")


def reply_text(text: str, *rows: tuple[Button, ...], code: str = "") -> ActionResult:
    """An answer of one short message; `code` is a word of it that a tap copies."""
    return ActionResult(parts=(build_part(text, *rows, code=code),))


def build_part(text: str, *rows: tuple[Button, ...], code: str = "") -> Part:
    """One short message with rows of buttons; `code` is a word of it that a tap copies."""
    entities: tuple[dict[str, object], ...] = ()
    if code:
        entities = (
            {
                "type": "code",
                "offset": count_utf16_units(text[: text.index(code)]),
                "length": count_utf16_units(code),
            },
        )
    return Part(text, entities, rows)


def count_utf16_units(text: str) -> int:
    """Length as Telegram counts it, in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def build_pages(
    heading: str, entries: Iterable[tuple[str, tuple[Button, ...]]], *, buttons_per_row: int
) -> tuple[Part, ...]:
    """A list as messages: lines with the buttons that belong to them under the message they stand in."""
    found: list[Part] = []
    lines = [heading]
    buttons = list[Button]()
    for line, own in entries:
        if len(lines) > MAX_PAGE_ENTRIES or count_utf16_units("\n".join([*lines, line])) > MAX_PAGE_UNITS:
            found.append(_build_page(lines, buttons, buttons_per_row))
            lines = []
            buttons = []
        lines.append(line)
        buttons.extend(own)
    return (*found, _build_page(lines, buttons, buttons_per_row))


def _build_page(lines: Sequence[str], buttons: Sequence[Button], buttons_per_row: int) -> Part:
    rows = tuple(tuple(buttons[at : at + buttons_per_row]) for at in range(0, len(buttons), buttons_per_row))
    return Part("\n".join(lines), buttons=rows)


async def do_nothing(_call: ActionContext) -> ActionResult:
    """What needs no answer."""
    return ActionResult()
