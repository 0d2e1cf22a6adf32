"""An answer cut at the length limit, and how it goes on: its text is joined exactly where it was cut. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.agent.reply_parser import blank, shown
from bot.agent.sanitize import CONTROL
from bot.domain import CANVAS, Message, Reply


@dataclass(frozen=True, slots=True)
class Draft:
    """The answer so far: its raw text without blanks at its end, what was thought before it, the canvases it
    took.

    `asked` is the prompt it answers. Templates trim a message, so the blank at a cut is for the model to
    write again.
    """

    asked: tuple[Message, ...]
    text: str
    reasoning: str
    canvases: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """The prompt to go on from: it ends in the middle of the answer."""
        return (*self.asked, Message("assistant", self.text, reasoning=self.reasoning or None))

    @property
    def shown(self) -> str:
        """The answer so far as a person may see it."""
        return shown(self.text)

    def joined(self, reply: Reply) -> Reply:
        """A reply to these messages as if it had come in one piece."""
        return replace(reply, text=self.text + reply.text, reasoning=self.reasoning)

    def further(self, reply: Reply) -> "Draft":
        """The draft with a reply to its messages, which was cut as well."""
        return replace(self, text=(self.text + reply.text).rstrip(), canvases=self.canvases + canvases(reply))


def begin(asked: Sequence[Message], reply: Reply) -> Draft:
    """The draft a cut reply to this prompt is."""
    return Draft(tuple(asked), reply.text.rstrip(), reply.reasoning, canvases(reply))


def may_go_on(text: str) -> bool:
    """Whether this raw text of the model may be sent back as it is: it holds nothing the template would obey."""
    return not blank(text) and not CONTROL.search(text)


def canvases(reply: Reply) -> int:
    """Canvases the answer in this reply took; what was thought before it does not count."""
    if reply.usage.completion_tokens is None:
        return max(1, reply.blocks)
    written = reply.usage.completion_tokens - (reply.usage.reasoning_tokens or 0)
    return max(1, -(-written // CANVAS))
