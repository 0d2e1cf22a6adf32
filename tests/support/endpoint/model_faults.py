"""Slips of the model itself, as reported from the field: a brain that sometimes writes something broken.

Pure but for its seeded chance. How the server handles a slip is the parser's business.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence

from bot.sim.vllm.script import Brain, ChatRequest
from tests.support.endpoint.brains import ScriptedReply

_TOOL_CALL = re.compile(r"<\|tool_call>call:(?P<name>\w+)\{(?P<inside>.*?)\}<tool_call\|>", re.DOTALL)


def with_model_faults(
    brain: Brain, rate: float, *, fault_names: Sequence[str] | None = None, seed: int = 0
) -> Brain:
    """`brain`, with a share `rate` of its replies broken in one of the named ways (default: all)."""
    faults = [MODEL_FAULTS[name] for name in fault_names or MODEL_FAULTS]
    chance = random.Random(seed)

    def broken(request: ChatRequest) -> str:
        reply = brain(request)
        if chance.random() >= rate:
            return reply
        break_text = chance.choice(faults)
        if isinstance(reply, ScriptedReply):
            return ScriptedReply(break_text(reply), reply.canvas_delay, crashes_engine=reply.crashes_engine)
        return break_text(reply)

    return broken


def _rewrite_calls(rewrite: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    return lambda text: _TOOL_CALL.sub(rewrite, text)


def _cut_last_call(text: str) -> str:
    """End the turn in the middle of its last call."""
    start = text.rfind("<|tool_call>")
    if start < 0:
        return text
    return text[: start + (len(text) - start) * 2 // 3]


def _repeat_first_key(call: re.Match[str]) -> str:
    key, _, _ = call["inside"].partition(":")
    return f'<|tool_call>call:{call["name"]}{{{key}:<|"|>no, wait<|"|>,{call["inside"]}}}<tool_call|>'


MODEL_FAULTS: Mapping[str, Callable[[str], str]] = {
    "empty turn": lambda _: "",
    "answer as thought": lambda text: f"thought\n{text}",
    "call without its opener": lambda text: text.replace("<|tool_call>", "").replace("<tool_call|>", ""),
    "round brackets": _rewrite_calls(
        lambda call: f"<|tool_call>call:{call['name']}({call['inside']})<tool_call|>"
    ),
    "assigned": _rewrite_calls(
        lambda call: f"<|tool_call>call:{call['name']}({call['inside'].replace(':', '=')})<tool_call|>"
    ),
    "plain quotes": lambda text: text.replace('<|"|>', '"'),
    "name of the prefix": lambda text: text.replace("<|tool_call>call:", "<|tool_call>:call:"),
    "unknown name": _rewrite_calls(
        lambda call: f"<|tool_call>call:{call['name']}_v2{{{call['inside']}}}<tool_call|>"
    ),
    "unfinished call": _cut_last_call,
    "key twice": _rewrite_calls(_repeat_first_key),
    "thought left open": lambda text: f"<|channel>thought\nhm {text}",
}
