"""`bench prefill`: what prompts cost the endpoint to read, beside the least that any cache could compute.

Builds the report; prints nothing. Scripted conversations go through the gateway's own history and prompts,
the simulator's chat template and its prefix cache; no model is called.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.agent import history
from bot.agent.history import HistoryCut
from bot.agent.token_budget import TokenBudget
from bot.bench.harness.prose import write_prose
from bot.bench.harness.sample_tools import discover_with_samples
from bot.bench.policies.cache_meter import CacheMeter
from bot.bench.policies.chat_styles import (
    STYLES,
    TOOL_STYLES,
    ChatStyle,
    ScriptedChatTurn,
    write_conversation,
)
from bot.bench.policies.output import PolicyReport, PrintLine
from bot.db.conversations.conversations import Conversation
from bot.db.conversations.turns import PastTurn
from bot.domain import Message, ToolCall
from bot.llm.dialect import write_messages, write_tools
from bot.settings import SYSTEM_PROMPT, Settings
from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.gemma.tokens import CACHE_BLOCK_TOKENS, count_tokens
from bot.tool_registry.toolbox import Toolbox
from bot.turns import (
    LEAST_RESERVE_TOKENS,
    TOOL_RESERVE_TOKENS,
    WARMUP_PROMPTS,
    ContextWindow,
    compute_token_ratio,
    estimate_fixed_tokens,
    render_window,
)

SEEDS = (1, 2, 3)
THOUGHT_TOKENS = 150  # of one step's thought
PERSONA_TOKENS = (100,) * 5  # of the instructions of each
RECALL_DISTANCES = (1, 5, 10)  # turns back
MAX_CHAT_RATIO = 1.05
MAX_TOOL_RATIO = 1.12

TITLES = (
    *("style", "calls", "prompts", "computed", "of the least", "to the token", "dense", "cuts"),
    *(f"{distance} ago" for distance in RECALL_DISTANCES),
)


@dataclass(frozen=True, slots=True)
class PrefillOptions:
    """`turns` of each conversation; `budget` is the largest prompt, in tokens."""

    turns: int = 60
    budget: int = Settings.model_fields["prompt_budget"].default


@dataclass(frozen=True, slots=True)
class PrefillScore:
    """Sums over the conversations of one style, in tokens.

    `computed`: by the cache as vLLM keeps it by default. `least`: by a cache of the same block size that
    keeps every block of every prompt. `least_to_the_token`: by one without blocks.
    `dense_computed`: by a dense cache, which keeps the model's output, too.
    `cuts`: how often turns left the prompt. `recall`: by distance in turns, the share of turns whose prompt
    holds the fact of the turn so many turns ago.
    """

    style: str
    turns: int
    calls: int
    prompt: int
    computed: int
    least: int
    least_to_the_token: int
    dense_computed: int
    cuts: int
    recall: dict[int, float]

    @property
    def ratio(self) -> float:
        """What is computed, of the least for the same prompts."""
        return self.computed / self.least

    @property
    def max_ratio(self) -> float:
        """The bound of the ratio."""
        if self.style in TOOL_STYLES:
            return MAX_TOOL_RATIO
        return MAX_CHAT_RATIO

    def format_cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            self.style,
            str(self.calls),
            f"{self.prompt / 1000:,.0f} k",
            f"{self.computed / 1000:,.1f} k",
            f"{self.ratio:.2f} ×",
            f"{self.computed / self.least_to_the_token:.2f} ×",
            f"{self.dense_computed / 1000:,.1f} k",
            str(self.cuts),
            *(f"{100 * share:.0f} %" for share in self.recall.values()),
        )


def run_prefill(
    options: PrefillOptions,
    print_line: PrintLine = lambda line: None,
    styles: Mapping[str, ChatStyle] = STYLES,
) -> PolicyReport[PrefillScore]:
    """Hold the conversations of every style, each at an endpoint of its own.

    The report holds if every style stays within its bound.
    """
    toolbox = Toolbox(discover_with_samples())
    scores = []
    for name, style in styles.items():
        print_line(f"measuring: {name}")
        scores.append(_measure_style(name, style, options, toolbox))
    personas = ("personas", _describe_personas(options, toolbox))
    return PolicyReport(
        TITLES,
        tuple(scores),
        (*_describe_conditions(options, toolbox), personas),
        holds=all(score.ratio <= score.max_ratio for score in scores),
    )


def _measure_style(name: str, style: ChatStyle, options: PrefillOptions, toolbox: Toolbox) -> PrefillScore:
    meters = []
    recalls: dict[int, list[bool]] = {distance: [] for distance in RECALL_DISTANCES}
    cuts = 0
    for seed in SEEDS:
        conversation = _Conversation(toolbox, options.budget, CacheMeter())
        conversation.warm_up()
        scripted_turns = write_conversation(style, options.turns, seed)
        for number, turn in enumerate(scripted_turns):
            prompt_text = conversation.run_turn(turn)
            for distance, held in recalls.items():
                if number >= distance:
                    held.append(scripted_turns[number - distance].fact in prompt_text)
        meters.append(conversation.meter)
        cuts += conversation.cuts
    return PrefillScore(
        name,
        turns=options.turns * len(SEEDS),
        calls=sum(meter.calls for meter in meters),
        prompt=sum(meter.prompt for meter in meters),
        computed=sum(meter.computed for meter in meters),
        least=sum(meter.least for meter in meters),
        least_to_the_token=sum(meter.least_to_the_token for meter in meters),
        dense_computed=sum(meter.dense_computed for meter in meters),
        cuts=cuts,
        recall={distance: sum(held) / len(held) for distance, held in recalls.items() if held},
    )


def _describe_personas(options: PrefillOptions, toolbox: Toolbox) -> str:
    """What chats compute at one endpoint, each with a persona of its own, beside the same chats without."""
    texts = [write_prose(tokens, seed).strip() for seed, tokens in enumerate(PERSONA_TOKENS)]
    computed = [
        _measure_side_by_side(options, toolbox, instructions) for instructions in (texts, [""] * len(texts))
    ]
    extra = (computed[0] - computed[1]) / len(texts)
    return (
        f"{len(texts)} short chats of {options.turns} turns at one endpoint compute "
        f"{computed[0] / 1000:,.1f} k with a persona of {PERSONA_TOKENS[0]} tokens each, "
        f"{computed[1] / 1000:,.1f} k without: {extra:,.0f} tokens for each persona"
    )


def _measure_side_by_side(options: PrefillOptions, toolbox: Toolbox, instructions: Sequence[str]) -> int:
    """The tokens computed for chats with these instructions, which answer turn by turn."""
    meter = CacheMeter()
    _Conversation(toolbox, options.budget, meter).warm_up()
    chats = [_Conversation(toolbox, options.budget, meter, text) for text in instructions]
    scripts = [write_conversation(STYLES["short chat"], options.turns, seed) for seed in range(len(chats))]
    for turns in zip(*scripts, strict=True):
        for chat, turn in zip(chats, turns, strict=True):
            chat.run_turn(turn)
    return meter.computed


class _Conversation:
    """One scripted conversation with the window of its prompt, as the gateway would store it."""

    def __init__(self, toolbox: Toolbox, budget: int, meter: CacheMeter, instructions: str = "") -> None:
        self.meter = meter
        self.cuts = 0
        self._toolbox = toolbox
        self._budget = budget
        self._past_turns: list[PastTurn] = []
        self._messages: list[list[Message]] = []
        conversation = Conversation(instructions=instructions)
        self._window = ContextWindow(
            conversation,
            conversation,
            is_begun=True,
            toolbox=toolbox,
            past_turns=(),
            history_cut=HistoryCut(),
            fixed_tokens=estimate_fixed_tokens(conversation, SYSTEM_PROMPT, toolbox),
            token_ratio=1.0,
        )

    def warm_up(self) -> None:
        """What the gateway sends at its start, in both lineages; it is not counted."""
        for thinking in (False, True):
            for text in WARMUP_PROMPTS:
                prompt = render_window(self._window, SYSTEM_PROMPT, (), [Message("user", text)])
                self.meter.add(self._render(prompt, thinking=thinking), "", is_counted=False)

    def run_turn(self, turn: ScriptedChatTurn) -> str:
        """Answer one message; returns the turn's first prompt."""
        user = Message("user", turn.text)
        user_tokens = history.estimate_tokens([user])
        window = self._cut_window(turn, user, user_tokens)
        held_messages = self._messages[window.history_cut.first_turn :]
        prompt = render_window(window, SYSTEM_PROMPT, held_messages, [user])
        first_prompt = self._render(prompt, thinking=turn.thinks)
        tokens_left = int(self._budget / window.token_ratio) - window.estimated_tokens - user_tokens
        messages, counted = self._run_steps(turn, prompt, TokenBudget(max(0, tokens_left)))
        turn_messages = [user, *messages]
        self._messages.append([replace(message, reasoning=None) for message in turn_messages])
        past_turn = PastTurn(
            id=len(self._past_turns) + 1,
            size=history.estimate_tokens(turn_messages),
            short=history.estimate_tokens(history.shorten_turn(turn_messages)),
            prompt=window.estimated_tokens + user_tokens,
            counted=counted,
            thinking=turn.thinks,
            used=("search_web",) if turn.results else (),
            received_at=0.0,
        )
        self._past_turns.append(past_turn)
        self._window = replace(
            window,
            past_turns=tuple(self._past_turns),
            token_ratio=compute_token_ratio(self._past_turns),
        )
        return first_prompt

    def _cut_window(self, turn: ScriptedChatTurn, user: Message, user_tokens: int) -> ContextWindow:
        """The window of the next prompt, as turn_plan decides it."""
        reserve = TOOL_RESERVE_TOKENS if turn.results else LEAST_RESERVE_TOKENS
        new_tokens = user_tokens + min(reserve, self._budget // 4)
        window = self._window
        if window.is_near_budget(new_tokens, self._budget):
            held_messages = self._messages[window.history_cut.first_turn :]
            prompt = render_window(window, SYSTEM_PROMPT, held_messages, [user])
            counted = count_tokens(self._render(prompt, thinking=turn.thinks))
            ratio = history.compute_token_ratio(window.estimated_tokens + user_tokens, counted)
            window = replace(window, token_ratio=ratio)
        cut_window = window.cut_to_fit(self._budget, new_tokens)
        if cut_window is not window:
            self.cuts += 1
            fixed_tokens = estimate_fixed_tokens(cut_window.conversation, SYSTEM_PROMPT, self._toolbox)
            return replace(cut_window, fixed_tokens=fixed_tokens)
        return window

    def _run_steps(
        self, turn: ScriptedChatTurn, prompt: Sequence[Message], budget: TokenBudget
    ) -> tuple[list[Message], int]:
        """The messages of the turn after the user's, and the tokens of its first prompt."""
        messages: list[Message] = []
        thought = write_prose(THOUGHT_TOKENS, 1).strip() if turn.thinks else None
        counted = 0
        for step, texts in enumerate((*turn.results, ())):
            prompt_text = self._render((*prompt, *messages), thinking=turn.thinks)
            if texts:
                calls = tuple(
                    ToolCall(f"call{step}_{index}", "search_web", json.dumps({"query": text[:40]}))
                    for index, text in enumerate(texts)
                )
                replies = [Message("assistant", calls=calls, reasoning=thought)]
                output = ""
            else:
                calls = ()
                replies = [Message("assistant", turn.answer, reasoning=thought)]
                output = turn.answer
            tokens = self.meter.add(prompt_text, output)
            counted = counted or tokens
            budget.spend(replies)
            results = [
                Message("tool", text, call_id=call.id) for call, text in zip(calls, texts, strict=True)
            ]
            messages += [*replies, *budget.fit_results(results)]
        return messages, counted

    def _render(self, prompt: Sequence[Message], *, thinking: bool) -> str:
        tools = write_tools(self._toolbox.definitions)
        return render_prompt(TemplateInput(write_messages(prompt), tools, thinking=thinking))


def _describe_conditions(options: PrefillOptions, toolbox: Toolbox) -> tuple[tuple[str, str], ...]:
    kept = f"every block of {CACHE_BLOCK_TOKENS} tokens of every prompt"
    return (
        (
            "conversations",
            f"{len(SEEDS)} of {options.turns} turns a style, the same in every run, each at an endpoint of "
            "its own that was warmed up; what people write and what tools return is of random length",
        ),
        (
            "prompts",
            f"at most {options.budget} tokens, {len(toolbox.definitions)} tools, no summary; built by the "
            "gateway's own history, rendered and counted by the rule of the simulator",
        ),
        ("computed", "by a prefix cache that keeps the ends of prompts and where two parted, vLLM's default"),
        ("least", f"for the same prompts, by a cache that keeps {kept}; to the token: without blocks"),
        (
            "dense",
            "computed by a cache that keeps the model's output, too (--prefix-cache-retention-interval); "
            "simulated, neither its gain nor its memory was measured on a card",
        ),
        ("ago", "turns whose first prompt holds a word that was said so many turns before"),
    )
