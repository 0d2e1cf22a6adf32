"""Scripted conversations of several styles: what people write, what tools return, how long answers are.

Pure, and the same for the same seed. Every turn holds one fact, a word that no other turn has, in what the
person writes or in the answer.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bot.bench.harness.prose import write_prose

PASTE_TOKENS = (500, 2500)
RESULT_TOKENS = (40, 900)  # of one tool's result, such as a search or a page
SHORT_RESULT_TOKENS = (8, 60)  # such as a time or a number
MAX_TOOL_STEPS = 4


@dataclass(frozen=True, slots=True)
class ScriptedChatTurn:
    """One turn of a conversation.

    `results`: one step of the loop each, the texts its tool calls return; empty where no tool is used.
    `thinks`: whether the model thinks in this turn.
    """

    text: str
    answer: str
    fact: str
    results: tuple[tuple[str, ...], ...] = ()
    thinks: bool = False


ChatStyle = Callable[[random.Random, int], ScriptedChatTurn]


def write_conversation(style: ChatStyle, turns: int, seed: int) -> list[ScriptedChatTurn]:
    """The turns of one conversation of a style."""
    generator = random.Random(seed)  # noqa: S311 - the same conversation in every run, no secret
    return [style(generator, number) for number in range(turns)]


def _chat(generator: random.Random, number: int) -> ScriptedChatTurn:
    return _make_turn(generator, number, (8, 60), (30, 150))


def _explain(generator: random.Random, number: int) -> ScriptedChatTurn:
    return _make_turn(generator, number, (15, 80), (120, 500))


def _paste(generator: random.Random, number: int) -> ScriptedChatTurn:
    """A long text every third message, and questions about it."""
    if number % 3 == 0:
        return _make_turn(generator, number, PASTE_TOKENS, (80, 300))
    return _make_turn(generator, number, (10, 50), (50, 250))


def _use_tools(generator: random.Random, number: int) -> ScriptedChatTurn:
    results = _write_results(generator, generator.randint(1, MAX_TOOL_STEPS), RESULT_TOKENS)
    return _make_turn(generator, number, (10, 60), (40, 200), results)


def _use_light_tools(generator: random.Random, number: int) -> ScriptedChatTurn:
    results = _write_results(generator, generator.randint(1, 2), SHORT_RESULT_TOKENS)
    return _make_turn(generator, number, (10, 60), (20, 80), results)


def _think_with_tools(generator: random.Random, number: int) -> ScriptedChatTurn:
    return replace(_use_tools(generator, number), thinks=True)


def _mixed_day(generator: random.Random, number: int) -> ScriptedChatTurn:
    """Mostly small talk and questions; some tools, a long text now and then, a heavy task once in a while."""
    kind = generator.random()
    if kind < 0.5:
        return _chat(generator, number)
    if kind < 0.7:
        return _explain(generator, number)
    if kind < 0.8:
        return _make_turn(generator, number, PASTE_TOKENS, (80, 300))
    if kind < 0.88:
        return _use_light_tools(generator, number)
    if kind < 0.95:
        return _use_tools(generator, number)
    return _think_with_tools(generator, number)


STYLES: Mapping[str, ChatStyle] = {
    "short chat": _chat,
    "explanations": _explain,
    "long pastes": _paste,
    "mixed day": _mixed_day,
    "light tools": _use_light_tools,
    "tool loops": _use_tools,
    "tool loops, thinking": _think_with_tools,
}
TOOL_STYLES = frozenset({"light tools", "tool loops", "tool loops, thinking"})


def _make_turn(
    generator: random.Random,
    number: int,
    text_tokens: tuple[int, int],
    answer_tokens: tuple[int, int],
    results: tuple[tuple[str, ...], ...] = (),
) -> ScriptedChatTurn:
    fact = f"fact{number}x{generator.randrange(10**6)}"
    texts = [_write_text(generator, text_tokens), _write_text(generator, answer_tokens)]
    place = generator.randrange(2)
    texts[place] = _put_word(generator, texts[place], fact)
    return ScriptedChatTurn(texts[0], texts[1], fact, results)


def _write_results(
    generator: random.Random, steps: int, tokens: tuple[int, int]
) -> tuple[tuple[str, ...], ...]:
    """The results of so many steps; every fourth step calls two tools at once."""
    return tuple(
        tuple(_write_text(generator, tokens) for _ in range(generator.choice((1, 1, 1, 2))))
        for _ in range(steps)
    )


def _write_text(generator: random.Random, tokens: tuple[int, int]) -> str:
    return write_prose(generator.randint(*tokens), generator.randrange(2**32)).strip()


def _put_word(generator: random.Random, text: str, word: str) -> str:
    words = text.split(" ")
    words.insert(generator.randrange(len(words) + 1), word)
    return " ".join(words)
