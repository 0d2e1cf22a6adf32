"""An answer cut at the length limit, and how it continues: joined exactly where it was cut. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.agent.reply_parser import extract_visible_text, is_blank
from bot.agent.sanitize import CONTROL_TOKEN
from bot.canvases import count_canvases
from bot.domain import Message, Reply


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """An answer that was cut.

    prompt: what it answers.
    text: its raw text, without whitespace at the end: templates trim a message, so the model writes the
        whitespace at the cut again.
    reasoning: what was thought before it.
    canvases: those it took, without the thought.
    """

    prompt: tuple[Message, ...]
    text: str
    reasoning: str
    canvases: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt to continue from: it ends in the middle of the answer."""
        return (*self.prompt, Message("assistant", self.text, reasoning=self.reasoning or None))

    @property
    def visible_text(self) -> str:
        """The answer so far as a user may see it."""
        return extract_visible_text(self.text)

    def merge_reply(self, reply: Reply) -> Reply:
        """A reply to `messages` as if the answer had come in one piece."""
        return replace(reply, text=self.text + reply.text, reasoning=self.reasoning)

    def extend(self, reply: Reply) -> "PartialAnswer":
        """The answer with a reply to `messages`, which was cut as well."""
        text = (self.text + reply.text).rstrip()
        return replace(self, text=text, canvases=self.canvases + count_answer_canvases(reply))


def start_partial_answer(prompt: Sequence[Message], reply: Reply) -> PartialAnswer:
    """The answer that a cut reply to this prompt begins."""
    return PartialAnswer(tuple(prompt), reply.text.rstrip(), reply.reasoning, count_answer_canvases(reply))


def can_send_back(text: str) -> bool:
    """Whether this raw text of the model may stand in a prompt: nothing in it controls the template."""
    return not is_blank(text) and not CONTROL_TOKEN.search(text)


def count_answer_canvases(reply: Reply) -> int:
    """Canvases the answer in this reply took; what was thought before it does not count."""
    if reply.usage.completion_tokens is None:
        return max(1, reply.blocks)
    answer_tokens = reply.usage.completion_tokens - (reply.usage.reasoning_tokens or 0)
    return max(1, count_canvases(answer_tokens))
