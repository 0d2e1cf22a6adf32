"""The model of a chaos run: it answers every message with its marks, after the tools that it names."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.agent.notices import LAST_CALL
from bot.sim.vllm.script import message_text
from bot.sim.vllm.server import AudioUpload, ChatRequest, format_thought, format_tool_call
from tests.chaos.marks import answer_words, due_word
from tests.support.endpoint.model_faults import MODEL_FAULTS
from tests.support.endpoint.server import ScriptedReply

TOOL_KINDS = frozenset({"ring", "look", "toll", "remember", "task"})
SLOW_CANVAS_SECONDS = 0.05
_PROMPT = re.compile(
    r"\b(plain|long|stopped|ring|look|toll|remember|think|document|photo|voice|task|slip|due) (\d{5})\b"
)


@dataclass
class ChaosModel:
    """The brain of the endpoint; `bells_url` is where its tools ring, `rng` draws slips and delays."""

    rng: random.Random
    bells_url: str = ""
    _breakers: list[Callable[[str], str]] = field(default_factory=lambda: [*MODEL_FAULTS.values()])

    def __call__(self, request: ChatRequest) -> ScriptedReply:
        prompts = _find_last_prompts(request)
        calls = [self._format_call(kind, number) for kind, number in prompts if kind in TOOL_KINDS]
        if calls and request.step == 0 and LAST_CALL not in request.user_texts:
            return ScriptedReply("".join(calls))
        answer = "\n\n".join(self._answer(kind, int(number)) for kind, number in prompts) or "Nothing to say."
        if [kind for kind, _ in prompts] == ["slip"]:  # a slip would spoil the answers beside it
            answer = self.rng.choice(self._breakers)(answer)
        if request.open_text:
            answer = answer.removeprefix(request.open_text)
        elif request.thinking or any(kind == "think" for kind, _ in prompts):
            answer = format_thought("I count what there is, and then I say it.", request) + answer
        is_slow = any(kind in {"long", "stopped"} for kind, _ in prompts)
        return ScriptedReply(answer, SLOW_CANVAS_SECONDS if is_slow else 0.0)

    def _format_call(self, kind: str, number: str) -> str:
        if kind == "remember":
            return format_tool_call("remember", {"note": f"note {number}"})
        if kind == "task":
            return format_tool_call(
                "schedule", {"when": "in 1 minute", "text": f"due {number}", "task": True}
            )
        return format_tool_call(kind, {"address": f"{self.bells_url}/{number}"})

    def _answer(self, kind: str, number: int) -> str:
        if kind == "due":
            return f"{due_word(number)} is done."
        if kind == "slip":
            return "This one is odd."
        return " ".join(answer_words(kind, number))


def _find_last_prompts(request: ChatRequest) -> list[tuple[str, str]]:
    """The prompts of the newest messages of a person, before what says that no tool can be used any more."""
    texts: list[str] = []
    for message in reversed(request.messages):
        if message["role"] == "user" and message_text(message) != LAST_CALL:
            texts.append(message_text(message))
        elif texts:
            break
    return [prompt for text in reversed(texts) for prompt in _PROMPT.findall(text)]


def transcribe_as_text(audio: AudioUpload) -> str:
    """What a voice says is the text that it is made of."""
    return audio.data.decode()
