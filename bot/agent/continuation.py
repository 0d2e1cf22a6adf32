"""An answer cut at the length limit, and how it goes on: its text is joined exactly where it was cut. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.agent.reply_parser import extract_visible_text, is_blank
from bot.agent.sanitize import CONTROL_TOKEN
from bot.domain import CANVAS_TOKENS, Message, Reply


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """The answer so far: its raw text without blanks at its end, what was thought before it, the canvases it
    took.

    `asked` is the prompt it answers. Templates trim a message, so the blank at a cut is for the model to
    write again.
    """

    prompt: tuple[Message, ...]
    text: str
    reasoning: str
    canvases: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt to go on from: it ends in the middle of the answer."""
        return (*self.prompt, Message("assistant", self.text, reasoning=self.reasoning or None))

    @property
    def visible_text(self) -> str:
        """The answer so far as a person may see it."""
        return extract_visible_text(self.text)

    def merge_reply(self, reply: Reply) -> Reply:
        """A reply to these messages as if it had come in one piece."""
        return replace(reply, text=self.text + reply.text, reasoning=self.reasoning)

    def extend(self, reply: Reply) -> "PartialAnswer":
        """The draft with a reply to its messages, which was cut as well."""
        return replace(
            self, text=(self.text + reply.text).rstrip(), canvases=self.canvases + count_canvases(reply)
        )


def start_partial_answer(prompt: Sequence[Message], reply: Reply) -> PartialAnswer:
    """The draft a cut reply to this prompt is."""
    return PartialAnswer(tuple(prompt), reply.text.rstrip(), reply.reasoning, count_canvases(reply))


def can_continue(text: str) -> bool:
    """Whether this raw text of the model may be sent back as it is: it holds nothing the template would obey."""
    return not is_blank(text) and not CONTROL_TOKEN.search(text)


def count_canvases(reply: Reply) -> int:
    """Canvases the answer in this reply took; what was thought before it does not count."""
    if reply.usage.completion_tokens is None:
        return max(1, reply.blocks)
    written = reply.usage.completion_tokens - (reply.usage.reasoning_tokens or 0)
    return max(1, -(-written // CANVAS_TOKENS))
