"""What the model sees of a conversation next: which finished turns, how much they take, and what /context
says of it.

Reads what is stored; judged by agent/history. Sizes are estimates, brought to tokens by what the server
counted last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bot.agent import history
from bot.agent import prompt as prompting
from bot.agent.history import TurnSize
from bot.agent.toolbox import Toolbox
from bot.db.conversations import calls, conversations, notes
from bot.db.conversations import turns as stored
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.turns import PastTurn
from bot.db.engine import Transaction
from bot.domain import Lane, Message

Kit = Callable[[tuple[str, ...] | None], Toolbox]
"""The tools of a conversation whose prompt offers these names; None: it has not begun, so those it would be
offered.
"""

NEAR = 0.1  # of the budget: so near to it an estimate does not tell whether a prompt is above


@dataclass(frozen=True, slots=True)
class Window:
    """A conversation as the next prompt sees it. `ratio`: tokens the server counts where one is estimated.

    `fixed` is the estimate of what comes before the turns: system text, tools, notes and summary; `begun`
    says whether its notes are stored as they stand here, and its tools.
    """

    here: Conversation
    begun: bool
    toolbox: Toolbox
    past: tuple[PastTurn, ...]
    span: history.Window
    fixed: int
    ratio: float

    @property
    def size(self) -> int:
        """Estimated tokens of the prompt up to the newest messages."""
        return self.fixed + history.held(_sizes(self.past), self.span)

    def near(self, newest: int, budget: int) -> bool:
        """Whether the estimate of a prompt with so much new leaves it open if it is within the budget."""
        return bool(self.past) and abs((self.size + newest) * self.ratio - budget) <= NEAR * budget

    def within(self, budget: int, newest: int) -> "Window":
        """The window that leaves room for so much new; it is this one unless a cut is needed."""
        room = int(budget / self.ratio) - self.fixed - newest
        span = history.fit(_sizes(self.past), self.span, room)
        if span == self.span:
            return self
        here = replace(self.here, cut=self._before(span.first), shortened=self._before(span.whole))
        return replace(self, here=here, span=span)

    def _before(self, index: int) -> int | None:
        if index:
            return self.past[index - 1].id
        return None


@dataclass(frozen=True, slots=True)
class Composition:
    """What the next prompt of a lane is made of. `parts` are labels, such as `tool clock`, with estimated
    tokens.

    `last_prompt` and `last_cached` are the server's counts of the newest turn's first prompt, None where it
    gave none; `left_out_turns` are those of the conversation that are in the database only.
    """

    parts: tuple[tuple[str, int], ...]
    total: int
    budget: int
    last_prompt: int | None
    last_cached: int | None
    left_out_turns: int


async def look(tx: Transaction, lane: Lane, system: str, kit: Kit, number: int | None = None) -> Window:
    """The lane's conversation as it stands, or an earlier one of this `number`, of which nothing is stored
    any more.
    """
    here = await conversations.find(tx, lane)
    if number is not None and number != here.number:
        here = Conversation(number, think=here.think, over=True)
    past = await stored.past(tx, lane, here.number)
    toolbox = kit(here.tools)
    begun = here.over or (here.notes is not None and here.tools is not None)
    if here.notes is None:
        here = replace(here, notes=await _notes(tx, lane))
    span = history.Window(_after(past, here.cut), _after(past, here.shortened))
    known = next((turn for turn in reversed(past) if turn.counted), None)
    ratio = history.ratio(known.prompt, known.counted) if known else 1.0
    return Window(here, begun, toolbox, tuple(past), span, _fixed(here, system, toolbox), ratio)


async def cut(tx: Transaction, lane: Lane, window: Window, system: str) -> Window:
    """Store a cut. The front changes anyway, so notes and summary are brought up to date with it."""
    here = replace(window.here, notes=await _notes(tx, lane), tools=window.toolbox.offered)
    if here.ahead is not None:
        here = replace(here, summary=here.ahead, ahead=None, upto=None)
    if not here.over:
        await conversations.cut(tx, lane, here)
    return replace(window, here=here, fixed=_fixed(here, system, window.toolbox))


async def messages(
    tx: Transaction, window: Window, system: str, newest: Sequence[Message]
) -> tuple[Message, ...]:
    """The prompt of this window with the newest user messages."""
    span, held = window.span, window.past[window.span.first :]
    told = await stored.messages_of(tx, [turn.id for turn in held])
    short = max(0, span.whole - span.first)
    turns = [*map(history.shortened, told[:short]), *told[short:]]
    return prompting.build(system, turns, newest, window.here.notes, window.here.summary)


async def composition(tx: Transaction, lane: Lane, system: str, kit: Kit, budget: int) -> Composition:
    """What the lane's next prompt is made of."""
    window = await look(tx, lane, system, kit)
    toolbox = window.toolbox
    seen = await messages(tx, window, system, ())
    images = history.TOKENS_AN_IMAGE * sum(len(message.images) for message in seen)
    turns = len(window.past) - window.span.first
    sizes = [
        ("system text", history.estimate(prompting.build(system, (), ()))),
        *(
            (f"tool {one['function']['name']}", len(str(one)) // history.BYTES_A_TOKEN)
            for one in toolbox.definitions
        ),
        ("notes", _added(system, notes=window.here.notes)),
        ("summary", _added(system, summary=window.here.summary)),
        (f"{turns} turn{'' if turns == 1 else 's'}", history.held(_sizes(window.past), window.span) - images),
        ("images", images),
    ]
    if window.past:
        last = await calls.first_prompt(tx, window.past[-1].id)
    else:
        last = (None, None)
    parts = tuple((label, round(size * window.ratio)) for label, size in sizes if size)
    total = sum(tokens for _, tokens in parts)
    return Composition(parts, total, budget, *last, left_out_turns=window.span.first)


def _added(system: str, *, notes: str | None = None, summary: str | None = None) -> int:
    return history.estimate(prompting.build(system, (), (), notes, summary)[1:])


def least(system: str, toolbox: Toolbox) -> int:
    """Estimated tokens that every prompt takes, whatever is said."""
    return _fixed(Conversation(), system, toolbox)


def _fixed(here: Conversation, system: str, toolbox: Toolbox) -> int:
    head = prompting.build(system, (), (), here.notes, here.summary)
    return history.estimate(head) + toolbox.size // history.BYTES_A_TOKEN


def _sizes(past: Iterable[PastTurn]) -> list[TurnSize]:
    return [TurnSize(turn.size, turn.short) for turn in past]


def _after(past: Sequence[PastTurn], turn: int | None) -> int:
    """Index of the turn after this one; where a /retry has taken its place, of the first that began after it."""
    return next(
        (at + 1 for at, one in enumerate(past) if one.id == turn), sum(one.id < (turn or 0) for one in past)
    )


async def _notes(tx: Transaction, lane: Lane) -> str:
    return "\n".join(f"{note.number}. {note.text}" for note in await notes.all_of(tx, lane))
