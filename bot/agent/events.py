"""The words between the loop and whoever plays it: what a turn wants next, and what it is told. Pure values."""

from dataclasses import dataclass
from typing import Literal

from bot.agent.tool_calls import CheckedCall
from bot.domain import Message, Reply, ToolResult

Ending = Literal["answered", "cut", "empty", "steps", "seconds", "stopped"]
RetryReason = Literal["empty", "cut", "more", "failing", "silent", "brake"]
"""Why a model call is made that would not have been needed.

The same again: the reply was empty, or its call was cut. An answer goes on: more. Thinking from now on: calls
kept failing, or the reply was empty twice (silent). No thinking from now on: it found no end (brake). Each of
these three happens once a turn at most.
"""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Bounds of one turn: `steps` model calls at most, repeated ones counted; `max_tokens` of one answer.

    `thinking` is how many canvases a thought may take before its answer begins; `may_think`: whether thinking
    may be switched on. An answer cut at its limit goes on, if it `continues`, up to `canvases`. `room` is how
    many estimated tokens the steps may add to the prompt; None: no bound. The replies of the first `played`
    steps are known: what there was room for then, and what the endpoint could, is not judged again.
    """

    max_steps: int
    max_tokens: int
    thinking_canvases: int = 4
    may_think: bool = True
    can_continue: bool = True
    max_canvases: int = 8
    token_budget: int | None = None
    replayed_steps: int = 0


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. Answer with the Reply, or with Ended.

    `messages` is the whole prompt to send now. `step` counts the model calls of the turn from 1. `said` are
    the messages that came to be since the event before, in order. `brake`: tokens of mere thought after which
    the reply is closed. `continues`: the last message is the model's own, unfinished, and the reply goes on
    in it; `so_far` is what of it can be shown meanwhile (Markdown). Such a call is `optional`: it may be
    answered with Ended("crowded").
    """

    messages: tuple[Message, ...]
    tool_choice: Literal["auto", "none"]
    max_tokens: int
    step: int
    retry_reason: RetryReason | None
    new_messages: tuple[Message, ...]
    thinking: bool = False
    max_thinking_tokens: int | None = None
    continue_final_message: bool = False
    visible_text: str = ""

    @property
    def is_optional(self) -> bool:
        """Whether the turn has an answer without it."""
        return self.continue_final_message


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these side by side. Answer with one ToolResult for each, in any order; `calls` may be empty.

    `refused` are decided, and part of `said` already; they are here for the account only.
    """

    calls: tuple[CheckedCall, ...]
    refused: tuple[ToolResult, ...]
    step: int
    new_messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The turn is over. `text` (Markdown) is what the person reads, the `note` at its end included.

    `more`: the model had more to say, and a person may ask for it.
    """

    text: str
    ending: Ending
    note: str | None
    new_messages: tuple[Message, ...]
    has_more: bool = False


InterruptionReason = Literal["seconds", "stopped", "crowded", "failed"]


@dataclass(frozen=True, slots=True)
class TurnInterruption:
    """Sent instead of a Reply when the turn ends here; `partial` is what had come by then.

    Time is up, or the person stopped it; an answer does not go on, because others need the seats (crowded) or
    the endpoint does not do it (failed).
    """

    reason: InterruptionReason
    partial: Reply | None


LoopEvent = CallModel | RunTools | TurnResult
LoopInput = Reply | tuple[ToolResult, ...] | TurnInterruption
