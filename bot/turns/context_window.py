"""What the next prompt holds of a conversation: which finished turns, and how many tokens they take.

Also builds what /context shows. Reads what is stored; agent/history decides what is cut. Sizes are estimates,
brought to tokens by what the server counted last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bot.agent import history, prompt
from bot.agent.answer_sources import EarlierResults
from bot.agent.history import HistoryCut, TurnSize
from bot.agent.prompt import PromptHead
from bot.db.conversations import calls, conversations, instructions, kept_files, notes, turns
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.kept_files import FOLDER_CHAT
from bot.db.conversations.turns import PastTurn
from bot.db.transaction import Transaction
from bot.domain import Lane, Message
from bot.tool_registry.toolbox import Toolbox
from bot.translations.translator import translatable
from bot.turns.turn_request import TurnConfig
from tools.builtin.look_back import look_back
from tools.registry import measure_definition

TOOL_LABEL = "tool "
PERSONA_LABEL = "persona "
"""The label of a tool in a PromptBreakdown: this, and its name."""

ToolboxFor = Callable[[tuple[str, ...] | None], Toolbox]
"""The tools of a conversation whose prompt offers these names; None: it has not begun, so those it would be
offered.
"""

# Share of the budget; an estimate this near to the budget does not tell on which side of it the prompt is.
NEAR_BUDGET_SHARE = 0.1

MAX_NAMED_FILES = 15

MAX_EARLIER_RESULTS = 30  # that are looked through for an address


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """A conversation as the next prompt holds it.

    `stored_conversation`: the lane's current one as the database has it.
    `is_begun`: its notes, instructions, files and tools are stored as they are here.
    `fixed_tokens`: estimate of what comes before the turns: system text, instructions, tools, notes, files,
    summary.
    `token_ratio`: tokens the server counts for each estimated one.
    """

    stored_conversation: Conversation
    conversation: Conversation
    is_begun: bool
    toolbox: Toolbox
    past_turns: tuple[PastTurn, ...]
    history_cut: HistoryCut
    fixed_tokens: int
    token_ratio: float

    @property
    def turn_sizes(self) -> list[TurnSize]:
        """Estimated tokens of each past turn."""
        return [TurnSize(turn.size, turn.short) for turn in self.past_turns]

    @property
    def held_tokens(self) -> int:
        """Estimated tokens of the turns that the prompt holds."""
        return history.estimate_held_tokens(self.turn_sizes, self.history_cut)

    @property
    def estimated_tokens(self) -> int:
        """Estimated tokens of the prompt up to the newest messages."""
        return self.fixed_tokens + self.held_tokens

    def is_near_budget(self, new_tokens: int, budget: int) -> bool:
        """Whether the estimate leaves open if a prompt with so many new tokens is within the budget."""
        tokens = (self.estimated_tokens + new_tokens) * self.token_ratio
        return bool(self.past_turns) and abs(tokens - budget) <= NEAR_BUDGET_SHARE * budget

    def cut_to_fit(self, budget: int, new_tokens: int) -> "ContextWindow":
        """The window in which so many new tokens fit; it is this one unless a cut is needed."""
        tokens_left = int(budget / self.token_ratio) - self.fixed_tokens - new_tokens
        cut = history.fit_history(self.turn_sizes, self.history_cut, tokens_left)
        if cut == self.history_cut:
            return self
        conversation = replace(
            self.conversation,
            cut=self._turn_before(cut.first_turn),
            shortened=self._turn_before(cut.first_full_turn),
        )
        return replace(self, conversation=conversation, history_cut=cut)

    def _turn_before(self, index: int) -> int | None:
        if index:
            return self.past_turns[index - 1].id
        return None


@dataclass(frozen=True, slots=True)
class PromptBreakdown:
    """The parts of a lane's next prompt.

    `parts`: labels, such as `tool clock`, with estimated tokens.
    `last_prompt_tokens`, `last_cached_tokens`: the server's counts of the newest turn's first prompt; None:
    it gave none.
    `left_out_turns`: turns of the conversation that are no longer in the prompt, only in the database.
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
    """The lane's conversation as it is stored, or an earlier one, of which nothing is stored any more."""
    stored_conversation = conversation = await conversations.find(tx, lane)
    if conversation_number is not None and conversation_number != conversation.number:
        conversation = Conversation(conversation_number, think=conversation.think, is_over=True)
    past_turns = await turns.list_past_turns(tx, lane, conversation.number)
    toolbox = toolbox_for(conversation.tools)
    head = (conversation.notes, conversation.instructions, conversation.files, conversation.tools)
    is_begun = conversation.is_over or None not in head
    if conversation.notes is None:
        conversation = replace(conversation, notes=await load_notes(tx, lane))
    if conversation.instructions is None:
        conversation = replace(conversation, instructions=(await instructions.find(tx, lane)).text)
    if conversation.files is None:
        conversation = replace(conversation, files=await _load_file_names(tx, lane))
    cut = HistoryCut(
        turns.index_after(past_turns, conversation.cut), turns.index_after(past_turns, conversation.shortened)
    )
    return ContextWindow(
        stored_conversation,
        conversation,
        is_begun,
        toolbox,
        tuple(past_turns),
        cut,
        estimate_fixed_tokens(conversation, system, toolbox),
        compute_token_ratio(past_turns),
    )


def compute_token_ratio(past_turns: Sequence[PastTurn]) -> float:
    """Tokens the server counts for each estimated one, by its count of the newest prompt it counted."""
    counted_turn = next((turn for turn in reversed(past_turns) if turn.counted), None)
    if counted_turn is None:
        return 1.0
    return history.compute_token_ratio(counted_turn.prompt, counted_turn.counted)


async def renew_head(tx: Transaction, lane: Lane, window: ContextWindow, system: str) -> ContextWindow:
    """A window that is cut, with the newest notes and summary: the cut changes the prompt's front anyway."""
    conversation = replace(
        window.conversation,
        notes=await load_notes(tx, lane),
        files=await _load_file_names(tx, lane),
        tools=window.toolbox.offered_names,
    )
    if conversation.summary_ahead is not None:
        conversation = replace(
            conversation,
            summary=conversation.summary_ahead,
            is_summary_outside=conversation.is_summary_ahead_outside,
            summary_ahead=None,
            summary_upto=None,
        )
    fixed_tokens = estimate_fixed_tokens(conversation, system, window.toolbox)
    return replace(window, conversation=conversation, fixed_tokens=fixed_tokens)


async def load_notes(tx: Transaction, lane: Lane) -> str:
    """The chat's notes as a prompt has them."""
    return "\n".join(f"{note.number}. {note.text}" for note in await notes.list_all(tx, lane))


async def _load_file_names(tx: Transaction, lane: Lane) -> str:
    """The newest of the chat's files as a prompt names them; those of the owner's folder only in private."""
    if lane.is_guest:
        return ""
    files = await kept_files.list_files(tx, lane.chat)
    if not lane.is_group:
        files += await kept_files.list_files(tx, FOLDER_CHAT)
    names = [f'"{file.name}"' for file in files[:MAX_NAMED_FILES]]
    if len(files) > MAX_NAMED_FILES:
        names.append(f"and {len(files) - MAX_NAMED_FILES} more")
    return ", ".join(names)


async def build_prompt(
    tx: Transaction, window: ContextWindow, system: str, new_messages: Sequence[Message]
) -> tuple[Message, ...]:
    """The prompt of this window with the newest user messages."""
    held_turns = window.past_turns[window.history_cut.first_turn :]
    stored = await turns.load_messages(tx, [turn.id for turn in held_turns])
    return render_window(window, system, stored, new_messages)


def render_window(
    window: ContextWindow,
    system: str,
    held_messages: Sequence[Sequence[Message]],
    new_messages: Sequence[Message],
) -> tuple[Message, ...]:
    """The prompt of this window: `held_messages` are those of the turns it holds, as they are stored."""
    cut = window.history_cut
    short_count = max(0, cut.first_full_turn - cut.first_turn)
    turn_messages = [
        *map(history.shorten_turn, held_messages[:short_count]),
        *held_messages[short_count:],
    ]
    return _build_messages(window.conversation, system, window.toolbox, turn_messages, new_messages)


async def load_earlier_results(
    tx: Transaction, window: ContextWindow, *, continues_answer: bool
) -> EarlierResults:
    """What tools returned to turns that the window does not hold whole, and to the answer to continue."""
    turn_ids = [turn.id for turn in window.past_turns]
    continued_ids = await turns.list_answer_turns(tx, turn_ids) if continues_answer else []
    first_full_turn = max(window.history_cut.first_turn, window.history_cut.first_full_turn)
    shortened_ids = [turn.id for turn in window.past_turns[:first_full_turn] if turn.used]
    return EarlierResults(
        await calls.load_successes(tx, continued_ids, limit=MAX_EARLIER_RESULTS),
        await calls.load_successes(tx, shortened_ids, limit=MAX_EARLIER_RESULTS),
    )


def estimate_minimum_tokens(system: str, toolbox: Toolbox) -> int:
    """Estimated tokens that every prompt takes before any message."""
    return estimate_fixed_tokens(Conversation(), system, toolbox)


def _estimate_head(head: PromptHead) -> int:
    """Estimated tokens that this adds to a prompt."""
    with_head = history.estimate_tokens(prompt.build_prompt("", (), (), head))
    return with_head - history.estimate_tokens(prompt.build_prompt("", (), ()))


def estimate_fixed_tokens(conversation: Conversation, system: str, toolbox: Toolbox) -> int:
    """Estimated tokens of what comes before the turns: system text, instructions, tools, notes, summary."""
    head = _build_messages(conversation, system, toolbox)
    return history.estimate_tokens(head) + toolbox.size_chars // history.BYTES_PER_TOKEN


def _build_messages(
    conversation: Conversation,
    system: str,
    toolbox: Toolbox,
    turn_messages: Iterable[Sequence[Message]] = (),
    new_messages: Sequence[Message] = (),
) -> tuple[Message, ...]:
    """The prompt of a conversation; without messages, what comes before them."""
    head = PromptHead(
        conversation.instructions,
        conversation.notes,
        conversation.files,
        conversation.summary,
        _find_cut_notice(conversation, toolbox),
    )
    return prompt.build_prompt(system, turn_messages, new_messages, head)


def _find_cut_notice(conversation: Conversation, toolbox: Toolbox) -> str | None:
    if conversation.cut is None:
        return None
    return prompt.build_cut_notice(look_back.name if look_back.name in toolbox.offered_names else None)


class PromptBreakdowns:
    """Loads what the next prompts of lanes consist of."""

    def __init__(self, config: TurnConfig) -> None:
        self._config = config

    async def load(self, tx: Transaction, lane: Lane) -> PromptBreakdown:
        """The parts of the lane's next prompt, with what the server counted for the last one."""
        config = self._config
        system = prompt.describe_chat(config.system, lane)
        toolbox_for = config.tool_registry.make_toolbox_builder(lane.chat)
        window = await load_window(tx, lane, system, toolbox_for)
        messages = await build_prompt(tx, window, system, ())
        image_tokens = config.image_tokens() * sum(len(message.images) for message in messages)
        cut_notice = _find_cut_notice(window.conversation, window.toolbox)
        fixed_prompt = prompt.build_prompt(system, (), (), PromptHead(cut_notice=cut_notice))
        sizes = [
            (translatable("system text"), history.estimate_tokens(fixed_prompt)),
            *(
                (
                    f"{TOOL_LABEL}{definition['name']}",
                    measure_definition(definition) // history.BYTES_PER_TOKEN,
                )
                for definition in window.toolbox.definitions
            ),
            (
                await _find_instructions_label(tx, lane, window.conversation.instructions),
                _estimate_head(PromptHead(window.conversation.instructions)),
            ),
            (translatable("notes"), _estimate_head(PromptHead(notes=window.conversation.notes))),
            (translatable("kept files"), _estimate_head(PromptHead(files=window.conversation.files))),
            (translatable("summary"), _estimate_head(PromptHead(summary=window.conversation.summary))),
            (translatable("earlier messages"), window.held_tokens - image_tokens),
            (translatable("images"), image_tokens),
        ]
        last_counts: tuple[int | None, int | None] = (None, None)
        if window.past_turns:
            last_counts = await calls.find_first_prompt_tokens(tx, window.past_turns[-1].id)
        parts = tuple((label, round(size * window.token_ratio)) for label, size in sizes if size)
        total = sum(tokens for _, tokens in parts)
        return PromptBreakdown(
            parts, total, config.prompt_budget, *last_counts, left_out_turns=window.history_cut.first_turn
        )


async def _find_instructions_label(tx: Transaction, lane: Lane, text: str | None) -> str:
    """What the instructions of a conversation are called: the persona, while it is used and as it was."""
    current = await instructions.find(tx, lane)
    if current.persona is not None and current.text == text:
        return f"{PERSONA_LABEL}{current.persona}"
    return translatable("instructions")
