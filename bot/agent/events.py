"""The protocol between the loop and its caller: events and their answers. Pure values."""

import sys
from dataclasses import dataclass
from typing import Literal

from bot.agent.history import TOKENS_PER_IMAGE
from bot.agent.tool_calls import CheckedCall
from bot.domain import Message, Reply, ToolResult

Ending = Literal["answered", "cut", "empty", "steps", "seconds", "stopped", "edited"]
RetryReason = Literal["empty", "cut", "more", "failing", "silent", "brake"]
"""Why a model call is made that would not have been needed.

`empty`: the reply was empty. `cut`: its call was cut. `more`: the rest of a cut answer is wanted.
`failing`, `silent`: thinking is on from now on, because calls kept failing or the reply was empty twice.
`brake`: thinking is off from now on, because it did not end. Each of these three happens at most once a turn.
"""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Bounds of one turn.

    max_steps: model calls, repeated ones included.
    max_tokens: of one answer.
    may_think: whether thinking may be switched on.
    can_continue: whether an answer cut at its limit is continued, up to `max_canvases`.
    token_budget: estimated tokens that the steps may add to the prompt.
    image_tokens: of a picture in the prompt.
    replayed_steps: steps whose replies are known already; for these it is not judged again what fitted the
        budget and what the endpoint could do.
    """

    max_steps: int
    max_tokens: int
    may_think: bool = True
    can_continue: bool = True
    max_canvases: int = 8
    token_budget: int = sys.maxsize
    image_tokens: int = TOKENS_PER_IMAGE
    replayed_steps: int = 0


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model. Answer with the Reply, or with a TurnInterruption.

    messages: the whole prompt to send now.
    step: counts the model calls of the turn from 1.
    new_messages: those added since the event before, in order.
    max_thinking_tokens: tokens of mere thought after which the reply is closed; None: no bound.
    continue_final_message: the last message is the model's own, unfinished, and the reply continues it.
    visible_text: what of that message can be shown meanwhile (Markdown).
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
        """Whether the turn has an answer without it: it may be answered with TurnInterruption("crowded")."""
        return self.continue_final_message


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls side by side. Answer with one ToolResult for each, in any order; `calls` may be empty.

    `refused` are decided, and part of `new_messages` already; they are given for the usage records only.
    """

    calls: tuple[CheckedCall, ...]
    refused: tuple[ToolResult, ...]
    step: int
    new_messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The turn is over. `text` (Markdown) is what the user reads, the `note` at its end included.

    `has_more`: the model had more to say, and the user may ask for it.
    """

    text: str
    ending: Ending
    note: str | None
    new_messages: tuple[Message, ...]
    has_more: bool = False


InterruptionReason = Literal["seconds", "stopped", "edited", "crowded", "failed"]


@dataclass(frozen=True, slots=True)
class TurnInterruption:
    """Sent instead of a Reply when the turn ends now; `partial` is what had arrived by then.

    `seconds`: time is up. `stopped`: the user stopped it. `edited`: its message was edited. An answer is not
    continued, because others need the seats (`crowded`) or because the endpoint fails to do it (`failed`).
    """

    reason: InterruptionReason
    partial: Reply | None


LoopEvent = CallModel | RunTools | TurnResult
LoopInput = Reply | tuple[ToolResult, ...] | TurnInterruption
