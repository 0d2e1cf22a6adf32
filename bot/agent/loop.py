"""What a turn does next, step by step: yields events, takes results. Pure: no I/O, no clock, no await.

The same inputs give the same events, so a turn goes on after a crash by playing its stored replies and results again.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bot.domain import Message, Reply, ToolCall, ToolResult

if TYPE_CHECKING:
    from tools.base import Tool

Ending = Literal["answered", "cut", "empty", "steps", "seconds", "stopped"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn: `steps` model calls at most, repeated ones counted; `max_tokens` of one call."""

    steps: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. Answer with the Reply, or with Ended.

    `messages` is the whole prompt to send now. `step` counts the model calls of the turn from 1. `again` says why a
    call is repeated ("empty", "cut"). `said` are the messages that came to be since the event before, in order.
    """

    messages: tuple[Message, ...]
    tool_choice: Literal["auto", "none"]
    max_tokens: int
    step: int
    again: str | None
    said: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that may run: repaired, and its arguments checked against the tool's schema."""

    call: ToolCall
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these side by side. Answer with one ToolResult for each, in any order; `calls` may be empty.

    `refused` are already decided and already part of `said`; they are here for the account only.
    """

    calls: tuple[Wanted, ...]
    refused: tuple[ToolResult, ...]
    step: int
    said: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn is over. `text` (Markdown) is what the person reads, the `note` at its end included."""

    text: str
    ending: Ending
    note: str | None
    said: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Sent instead of a Reply when time is up or the person stopped the turn; `partial` is what had come by then."""

    why: Literal["seconds", "stopped"]
    partial: Reply | None


Event = CallModel | RunTools | Finished
Given = Reply | tuple[ToolResult, ...] | Ended


def play(
    prompt: tuple[Message, ...], tools: "Mapping[str, Tool]", limits: Limits
) -> Generator[Event, Given, None]:
    """Play one turn: `next` gives the first event, `send` takes what came of it and gives the following one.

    After Finished the generator is exhausted. `prompt` ends in the newest user message; `tools` are those offered.
    """
    raise NotImplementedError
    yield
