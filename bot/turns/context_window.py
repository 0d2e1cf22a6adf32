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

ToolboxFor = Callable[[tuple[str, ...] | None], Toolbox]
"""The tools of a conversation whose prompt offers these names; None: it has not begun, so those it would be
offered.
"""

NEAR_BUDGET_SHARE = 0.1  # of the budget: so near to it an estimate does not tell whether a prompt is above


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """A conversation as the next prompt sees it. `ratio`: tokens the server counts where one is estimated.

    `fixed` is the estimate of what comes before the turns: system text, tools, notes and summary; `begun`
    says whether its notes are stored as they stand here, and its tools.
    """

    conversation: Conversation
    is_begun: bool
    toolbox: Toolbox
    past_turns: tuple[PastTurn, ...]
    history_cut: history.HistoryCut
    fixed_tokens: int
    token_ratio: float

    @property
    def estimated_tokens(self) -> int:
        """Estimated tokens of the prompt up to the newest messages."""
        return self.fixed_tokens + history.estimate_held_tokens(
            _turn_sizes(self.past_turns), self.history_cut
        )

    def is_near_budget(self, new_tokens: int, budget: int) -> bool:
        """Whether the estimate of a prompt with so much new leaves it open if it is within the budget."""
        return (
            bool(self.past_turns)
            and abs((self.estimated_tokens + new_tokens) * self.token_ratio - budget)
            <= NEAR_BUDGET_SHARE * budget
        )

    def cut_to_fit(self, budget: int, new_tokens: int) -> "ContextWindow":
        """The window that leaves room for so much new; it is this one unless a cut is needed."""
        room = int(budget / self.token_ratio) - self.fixed_tokens - new_tokens
        span = history.fit_history(_turn_sizes(self.past_turns), self.history_cut, room)
        if span == self.history_cut:
            return self
        here = replace(
            self.conversation,
            cut=self._turn_before(span.first_turn),
            shortened=self._turn_before(span.first_full_turn),
        )
        return replace(self, conversation=here, history_cut=span)

    def _turn_before(self, index: int) -> int | None:
        if index:
            return self.past_turns[index - 1].id
        return None


@dataclass(frozen=True, slots=True)
class PromptBreakdown:
    """What the next prompt of a lane is made of. `parts` are labels, such as `tool clock`, with estimated
    tokens.

    `last_prompt` and `last_cached` are the server's counts of the newest turn's first prompt, None where it
    gave none; `left_out_turns` are those of the conversation that are in the database only.
    """

    parts: tuple[tuple[str, int], ...]
    total_tokens: int
    prompt_budget: int
    last_prompt_tokens: int | None
    last_cached_tokens: int | None
    left_out_turns: int


async def load_window(
    tx: Transaction, lane: Lane, system: str, toolbox_for: ToolboxFor, conversation_number: int | None = None
) -> ContextWindow:
    """The lane's conversation as it stands, or an earlier one of this `number`, of which nothing is stored
    any more.
    """
    here = await conversations.find(tx, lane)
    if conversation_number is not None and conversation_number != here.number:
        here = Conversation(conversation_number, think=here.think, is_over=True)
    past = await stored.list_past_turns(tx, lane, here.number)
    toolbox = toolbox_for(here.tools)
    begun = here.is_over or (here.notes is not None and here.tools is not None)
    if here.notes is None:
        here = replace(here, notes=await _load_notes(tx, lane))
    span = history.HistoryCut(_index_after(past, here.cut), _index_after(past, here.shortened))
    known = next((turn for turn in reversed(past) if turn.counted), None)
    ratio = history.compute_token_ratio(known.prompt, known.counted) if known else 1.0
    return ContextWindow(
        here, begun, toolbox, tuple(past), span, _estimate_fixed_tokens(here, system, toolbox), ratio
    )


async def store_cut(tx: Transaction, lane: Lane, window: ContextWindow, system: str) -> ContextWindow:
    """Store a cut. The front changes anyway, so notes and summary are brought up to date with it."""
    here = replace(window.conversation, notes=await _load_notes(tx, lane), tools=window.toolbox.offered_names)
    if here.summary_ahead is not None:
        here = replace(here, summary=here.summary_ahead, summary_ahead=None, summary_upto=None)
    if not here.is_over:
        await conversations.store_cut(tx, lane, here)
    return replace(
        window, conversation=here, fixed_tokens=_estimate_fixed_tokens(here, system, window.toolbox)
    )


async def build_prompt(
    tx: Transaction, window: ContextWindow, system: str, new_messages: Sequence[Message]
) -> tuple[Message, ...]:
    """The prompt of this window with the newest user messages."""
    span, held = window.history_cut, window.past_turns[window.history_cut.first_turn :]
    told = await stored.load_messages(tx, [turn.id for turn in held])
    short = max(0, span.first_full_turn - span.first_turn)
    turns = [*map(history.shorten_turn, told[:short]), *told[short:]]
    return prompting.build_prompt(
        system, turns, new_messages, window.conversation.notes, window.conversation.summary
    )


async def load_prompt_breakdown(
    tx: Transaction, lane: Lane, system: str, toolbox_for: ToolboxFor, budget: int
) -> PromptBreakdown:
    """What the lane's next prompt is made of."""
    window = await load_window(tx, lane, system, toolbox_for)
    toolbox = window.toolbox
    seen = await build_prompt(tx, window, system, ())
    images = history.TOKENS_PER_IMAGE * sum(len(message.images) for message in seen)
    turns = len(window.past_turns) - window.history_cut.first_turn
    sizes = [
        ("system text", history.estimate_tokens(prompting.build_prompt(system, (), ()))),
        *(
            (f"tool {one['function']['name']}", len(str(one)) // history.BYTES_PER_TOKEN)
            for one in toolbox.definitions
        ),
        ("notes", _estimate_added_tokens(system, notes=window.conversation.notes)),
        ("summary", _estimate_added_tokens(system, summary=window.conversation.summary)),
        (
            f"{turns} turn{'' if turns == 1 else 's'}",
            history.estimate_held_tokens(_turn_sizes(window.past_turns), window.history_cut) - images,
        ),
        ("images", images),
    ]
    if window.past_turns:
        last = await calls.find_first_prompt_tokens(tx, window.past_turns[-1].id)
    else:
        last = (None, None)
    parts = tuple((label, round(size * window.token_ratio)) for label, size in sizes if size)
    total = sum(tokens for _, tokens in parts)
    return PromptBreakdown(parts, total, budget, *last, left_out_turns=window.history_cut.first_turn)


def _estimate_added_tokens(system: str, *, notes: str | None = None, summary: str | None = None) -> int:
    return history.estimate_tokens(prompting.build_prompt(system, (), (), notes, summary)[1:])


def estimate_minimum_tokens(system: str, toolbox: Toolbox) -> int:
    """Estimated tokens that every prompt takes, whatever is said."""
    return _estimate_fixed_tokens(Conversation(), system, toolbox)


def _estimate_fixed_tokens(conversation: Conversation, system: str, toolbox: Toolbox) -> int:
    head = prompting.build_prompt(system, (), (), conversation.notes, conversation.summary)
    return history.estimate_tokens(head) + toolbox.size_chars // history.BYTES_PER_TOKEN


def _turn_sizes(past_turns: Iterable[PastTurn]) -> list[TurnSize]:
    return [TurnSize(turn.size, turn.short) for turn in past_turns]


def _index_after(past_turns: Sequence[PastTurn], turn: int | None) -> int:
    """Index of the turn after this one; where a /retry has taken its place, of the first that began after it."""
    return next(
        (at + 1 for at, one in enumerate(past_turns) if one.id == turn),
        sum(one.id < (turn or 0) for one in past_turns),
    )


async def _load_notes(tx: Transaction, lane: Lane) -> str:
    return "\n".join(f"{note.number}. {note.text}" for note in await notes.list_all(tx, lane))
