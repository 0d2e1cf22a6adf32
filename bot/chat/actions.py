"""What an action (a command, a tapped button, a stranger's message) receives and returns.

Its effect, its answer and `done` are one transaction: an action changes the database only through
`context.tx`, and everything else only through what it returns. One that only reads can do so before that
transaction, as a ReadOnlyAction.
"""

import itertools
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from bot.canvases import OutputUnit
from bot.chat.access import Access
from bot.chat.group_directory import GroupDirectory
from bot.chat.guest_queries import GuestQueries
from bot.chat.outside_speech import OutsideSpeech
from bot.chat.quota import QuotaGate
from bot.chat.unaddressed_messages import UnaddressedMessages
from bot.db.conversations.chat_settings import ThinkMode
from bot.db.people import people
from bot.db.people.admin_changes import AdminChange
from bot.db.people.people import RoleOrBlocked
from bot.db.queues.admin_notices import AdminNotices
from bot.db.tools import audit
from bot.db.tools.audit import Actor
from bot.db.transaction import Transaction
from bot.db.usage import counter_readings
from bot.domain import Button, InboxItem, Lane, OutgoingFile, Part
from bot.errors import ChangeRefused
from bot.jobs.user_jobs import UserJobs
from bot.maintenance.retention import RetentionPolicy
from bot.telegram.best_effort_calls import BestEffortCalls
from bot.tool_registry.registry import ToolRegistry
from bot.tool_registry.sign_in_flows import SignInFlows
from bot.tool_registry.tool_info import BuiltinTools
from bot.translations.formats import format_number
from bot.translations.translator import Translator, translatable
from bot.turns import Approvals, ModelEndpoint, PromptBreakdowns, ToolQuestions

MAX_PAGE_UNITS = 3500  # UTF-16 units of one message of a list, well under Telegram's 4096
MAX_PAGE_ENTRIES = 20  # entries of one message of a list


ButtonRows = tuple[tuple[Button, ...], ...]
ListEntry = tuple[str, tuple[Button, ...]]
"""A line of a list, and its buttons."""


class ButtonExpired(ChangeRefused):
    """What a tapped button is about is gone, or its data says nothing."""

    def __init__(self) -> None:
        super().__init__(translatable("This button is too old."))


class TurnControl(Protocol):
    """Stops and wakes the turns that run."""

    def stop(self, lane: Lane, before: int | None = None) -> bool:
        """End what runs in the lane if it began before item `before`; False when nothing does."""
        ...

    def wake(self, lane: Lane) -> None:
        """End the back-off of the lane's turn: what it may do has changed, so it tries again now."""
        ...


class GroupAdministrators(Protocol):
    """Says who administers a group."""

    async def is_administrator(self, chat: int, person: int) -> bool:
        """Whether somebody administers a group."""
        ...


class GroupSeer(Protocol):
    """Says what the bot sees in a group."""

    async def find(self, chat: int, *, was_added: bool = False) -> bool | None:
        """Whether it sees every message (None: nobody says); `was_added`: it may be new there."""
        ...


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What actions in groups, and about them, work with.

    `unaddressed_messages`: has messages judged that name nobody.
    `guest_queries`: gives questions from chats of others their first answer.
    """

    directory: GroupDirectory
    administrators: GroupAdministrators
    sight: GroupSeer
    unaddressed_messages: UnaddressedMessages
    guest_queries: GuestQueries


@dataclass(frozen=True, slots=True)
class TurnParts:
    """What actions on turns work with.

    `control`: stops and wakes those that run.
    `quota_gate`: runs those of people whose allowance is not used up.
    `approvals`, `questions`: take people's answers about tool calls, and those that running tools wait for.
    `fallback_endpoint`: the second endpoint, if there is one.
    `default_thinking`: the mode of chats that have not set one.
    `prompt_breakdowns`: load what a lane's next prompt consists of.
    `can_speak`: answers can be read out. `outside_speech`: what hears and speaks outside the own network.
    """

    control: TurnControl
    quota_gate: QuotaGate
    approvals: Approvals
    questions: ToolQuestions
    fallback_endpoint: ModelEndpoint | None
    default_thinking: ThinkMode
    prompt_breakdowns: PromptBreakdowns
    can_speak: bool = False
    outside_speech: OutsideSpeech = field(default_factory=OutsideSpeech)


@dataclass(frozen=True, slots=True)
class ToolParts:
    """What actions on tools work with.

    `builtin`: the gateway's own tools.
    `sign_ins`: those under way.
    `program_homes`: the folder of the homes of MCP servers that are started here (None: there is none).
    """

    registry: ToolRegistry
    builtin: BuiltinTools
    sign_ins: SignInFlows
    program_homes: Path | None

    def is_repeatable(self, name: str) -> bool:
        """Whether running this tool again does no harm."""
        tool = self.registry.get(name)
        return tool is not None and tool.repeatable


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """What the owner has set, as far as actions read it.

    `bot_name`: the username, without @.
    `canvases_per_day`: what a member may use (None: no limit).
    `time_zone`: the gateway's; that of limits, and of people who have not named theirs.
    `admin_page_url`: where browsers reach the admins' page (None: it is off).
    `hooks_url`: where other programs reach hooks (None: they cannot).
    `is_database_on_server`: whose backups are its owner's.
    `retention`: how long copies of the database are kept.
    `examples`: what the greeting offers to tap; empty: its own.
    """

    bot_name: str
    canvases_per_day: int | None
    time_zone: str
    admin_page_url: str | None
    hooks_url: str | None
    is_database_on_server: bool
    retention: RetentionPolicy
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionDependencies:
    """What actions work with beside their transaction; `user_jobs`: what is to be done later."""

    access: Access
    notices: AdminNotices
    groups: GroupParts
    turns: TurnParts
    tools: ToolParts
    user_jobs: UserJobs
    settings: OwnerSettings
    best_effort_calls: BestEffortCalls


@dataclass(frozen=True, slots=True)
class ActionContext:
    """One action being carried out: who did what, where, in which transaction.

    `args` is what follows the command, or what the button carried.
    `translate`: into the person's language.
    `moderates`: whether they may stop what others asked, instruct and delete the chat; in private always.
    """

    tx: Transaction
    deps: ActionDependencies
    item: InboxItem
    lane: Lane
    person: int
    name: str
    role: RoleOrBlocked | None
    args: str
    now: float
    translate: Translator
    moderates: bool = True

    @property
    def is_group(self) -> bool:
        """Whether this happens in a group."""
        return self.lane.chat < 0

    @property
    def group_chat(self) -> int | None:
        """The chat of the group where this happens; None in a private chat."""
        return self.lane.chat if self.is_group else None

    def speaks_for(self, person: int | None) -> bool:
        """Whether a person's questions are theirs: their own, and those of a group that they administer.

        Administrators who are anonymous write as the group, but tap with their own account.
        """
        if person is None or person == self.person:
            return person is not None
        group = self.deps.groups.directory.find_open(self.lane.chat)
        return self.moderates and group is not None and group.has_number(person)

    def check_may_change_chat(self) -> None:
        """Raise ChangeRefused for who may not change what holds for all: in a group whom nobody let in."""
        if self.is_group and not self.moderates and self.deps.access.get_role(self.person) is None:
            raise ChangeRefused("Only people with access and administrators of this group can do that.")

    def match_args(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Match what the tapped button carries. Raises ButtonExpired for anything else."""
        match = pattern.fullmatch(self.args)
        if match is None:
            raise ButtonExpired
        return match

    def remove_tapped_buttons(self) -> "tuple[BestEffortCall, ...]":
        """The call that removes the buttons of the tapped message, if that can still be changed."""
        message = self.item.body["callback_query"].get("message")
        if message is None:
            return ()
        return (partial(self.deps.best_effort_calls.remove_buttons, self.lane, message["message_id"]),)

    @property
    def actor(self) -> Actor:
        """The person, as the author of what this action changes."""
        return Actor(self.person, "telegram")

    async def load_zone(self) -> ZoneInfo:
        """The person's time zone, or the gateway's."""
        return await people.load_zone(self.tx, self.person, self.deps.settings.time_zone)

    async def find_output_unit(self) -> OutputUnit:
        """What is told of the output of models in."""
        return await counter_readings.find_output_unit(self.tx)

    async def record_audit(
        self, action: str, subject: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        """Record that an admin did `action` to `subject`, with its state before and after (None: none)."""
        await audit.record(self.tx, self.actor, action, subject, change=(before, after), now=self.now)


BestEffortCall = Callable[[], Awaitable[object]]
"""A call to Telegram that may be lost without harm."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action answers, and what is to be done after its transaction.

    `parts`: the messages of the answer.
    `files`: sent after them.
    `reply_to`: the message that the first of them replies to.
    `toast`: a short line over the chat (taps only).
    `replacement`: what the tapped message becomes.
    `goes_on`: what the update asks for is still to be done, and it is handled once more.

    Once the transaction is committed, `after_commit` is called; then tools are reloaded if
    `changes_tools`; then the `best_effort_calls` are made.
    """

    parts: tuple[Part, ...] = ()
    files: tuple[OutgoingFile, ...] = ()
    reply_to: int | None = None
    toast: str = ""
    replacement: Part | None = None
    goes_on: bool = False
    after_commit: tuple[Callable[[], object], ...] = ()
    changes_tools: bool = False
    best_effort_calls: tuple[BestEffortCall, ...] = ()


Action = Callable[[ActionContext], Awaitable[ActionResult]]
SubAction = Callable[[ActionContext, str], Awaitable[ActionResult]]
"""What a word of a command or a button does, with what follows it."""


@dataclass(frozen=True, slots=True)
class ReadOnlyAction:
    """An action that changes nothing; its `context.tx` is a read transaction.

    It may take seconds of a large ledger: others write meanwhile, and are served.
    """

    action: Action

    async def __call__(self, context: ActionContext) -> ActionResult:
        return await self.action(context)


def reply_text(text: str, *rows: tuple[Button, ...], code: str = "") -> ActionResult:
    """Build an answer of one short message; `code` is a word of it that a tap copies."""
    return ActionResult(parts=(build_part(text, *rows, code=code),))


def build_part(text: str, *rows: tuple[Button, ...], code: str = "") -> Part:
    """Build one short message with rows of buttons; `code` is a word of it that a tap copies."""
    if not code:
        return Part(text, (), rows)
    offset = count_utf16_units(text[: text.index(code)])
    entity = {"type": "code", "offset": offset, "length": count_utf16_units(code)}
    return Part(text, (entity,), rows)


def check_length(text: str, limit: int) -> None:
    """Raise ChangeRefused for words of somebody that are more than is kept of them."""
    if len(text) > limit:
        raise ChangeRefused(
            "That's {count} characters; the limit is {limit}. Please shorten it.",
            count=partial(format_number, number=len(text)),
            limit=partial(format_number, number=limit),
        )


def reply_change(context: ActionContext, change: AdminChange) -> ActionResult:
    """Build the answer to an admin's change: what holds now."""
    answer = reply_text(change.text(context.translate))
    return replace(answer, after_commit=change.after_commit, best_effort_calls=change.calls)


def reply_hint(text: str, *rows: tuple[Button, ...]) -> ActionResult:
    """Build an answer of the gateway's own words; `words like these` of it are copied by a tap."""
    return ActionResult(parts=(build_hint(text, *rows),))


def build_hint(text: str, *rows: tuple[Button, ...]) -> Part:
    """Build one short message of the gateway's own words, with each `command like this` as code."""
    plain = ""
    entities = []
    for number, piece in enumerate(text.split("`")):
        if number % 2:
            offset = count_utf16_units(plain)
            entities.append({"type": "code", "offset": offset, "length": count_utf16_units(piece)})
        plain += piece
    return Part(plain, tuple(entities), rows)


def count_utf16_units(text: str) -> int:
    """Length as Telegram counts it, in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def build_pages(
    heading: str, entries: Iterable[ListEntry], *, buttons_per_row: int | None
) -> tuple[Part, ...]:
    """Split a list into messages; each has the buttons of its own lines below it.

    `buttons_per_row` None: those of each line in a row of their own.
    """
    pages: list[Part] = []
    lines = [heading]
    buttons = list[tuple[Button, ...]]()
    for line, line_buttons in entries:
        if len(lines) > MAX_PAGE_ENTRIES or count_utf16_units("\n".join([*lines, line])) > MAX_PAGE_UNITS:
            pages.append(_build_page(lines, buttons, buttons_per_row))
            lines = []
            buttons = []
        lines.append(line)
        if line_buttons:
            buttons.append(line_buttons)
    return (*pages, _build_page(lines, buttons, buttons_per_row))


def redraw_list(toast: str, pages: tuple[Part, ...]) -> ActionResult:
    """Replace the tapped list by its pages as they are now, if it fits one message; else only toast."""
    return ActionResult(toast=toast, replacement=pages[0] if len(pages) == 1 else None)


def _build_page(
    lines: Sequence[str], buttons: Sequence[tuple[Button, ...]], buttons_per_row: int | None
) -> Part:
    if buttons_per_row is None:
        return Part("\n".join(lines), buttons=tuple(buttons))
    all_buttons = tuple(itertools.chain.from_iterable(buttons))
    return Part("\n".join(lines), buttons=build_rows(all_buttons, buttons_per_row))


def build_rows(buttons: Sequence[Button], per_row: int) -> ButtonRows:
    """Lay buttons out in rows of at most `per_row`."""
    return tuple(tuple(buttons[start : start + per_row]) for start in range(0, len(buttons), per_row))


async def do_nothing(_context: ActionContext) -> ActionResult:
    """Do and answer nothing."""
    return ActionResult()
