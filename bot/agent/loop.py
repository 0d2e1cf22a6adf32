"""What a turn does next, step by step: yields events, takes results. Pure: no I/O, no clock, no await.

The same inputs give the same events, so a turn goes on after a crash by playing its stored replies and
results again.
"""

from collections.abc import Generator, Mapping
from typing import Literal

from bot.agent import continuation as drafts
from bot.agent import notices as sentences
from bot.agent import prompt as prompting
from bot.agent.continuation import PartialAnswer
from bot.agent.events import (
    CallModel,
    Ending,
    LoopEvent,
    LoopInput,
    RetryReason,
    RunTools,
    TurnInterruption,
    TurnLimits,
    TurnResult,
)
from bot.agent.reply_parser import (
    CUT_AT_LENGTH,
    AnswerReply,
    CutReply,
    EmptyReply,
    ReplyVerdict,
    ToolCallsReply,
    extract_visible_text,
    is_blank,
    parse_reply,
)
from bot.agent.token_budget import TokenBudget
from bot.agent.tool_calls import CallHistory, CheckedCall
from bot.domain import CANVAS_TOKENS, Message, Reply, ToolResult
from tools.base import Tool

THINK_AFTER_FAILED_STEPS = 2  # steps in a row without one call that could run, after which thinking may help
NO_TOOLS_AFTER_FAILED_STEPS = 3  # and after which no tools are offered any more


def run_turn(
    prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: TurnLimits, thinking: bool
) -> Generator[LoopEvent, LoopInput, None]:
    """Play one turn: `next` gives the first event, `send` takes what came of it and gives the following one.

    `prompt` ends in the newest user message, `tools` are those offered, `thinking` is what was decided for
    the turn. After Finished the generator is exhausted. Raises TypeError when an event is answered with what
    belongs to another.
    """
    turn = _LoopState(prompt, tools, limits, thinking)
    while True:
        given = yield turn.next_model_call()
        event: LoopEvent | None
        if isinstance(given, TurnInterruption):
            event = turn.on_interruption(given)
        else:
            event = turn.on_reply(given)
        if event is None:
            continue
        given = yield event
        if isinstance(event, TurnResult):
            return
        turn.on_results(event.calls, given)


class _LoopState:
    """What is known of a turn while it is played: its messages, and what it has tried."""

    def __init__(
        self, prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: TurnLimits, thinking: bool
    ) -> None:
        self._messages = list(prompt)
        self._reported_count = len(prompt)
        self._tools = tools
        self._limits = limits
        self._thinking = thinking
        self._may_think = limits.may_think
        self._token_budget = TokenBudget(limits.token_budget)
        self._step = 0
        self._retry_reason: RetryReason | None = None
        self._partial_answer: PartialAnswer | None = None
        self._failed_steps = 0
        self._call_history = CallHistory()
        self._call_ids: set[str] = set()
        self._findings: list[tuple[str, str]] = []

    def next_model_call(self) -> CallModel:
        """The next model call."""
        self._step += 1
        return CallModel(
            messages=self._prompt if self._partial_answer is None else self._partial_answer.messages,
            tool_choice="auto" if self._offered_tools else "none",
            max_tokens=self._max_tokens,
            step=self._step,
            retry_reason=self._retry_reason,
            new_messages=self._take_new_messages(),
            thinking=self._thinking,
            # The last call has no other after it: it may think as long as its tokens last.
            max_thinking_tokens=self._limits.thinking_canvases * CANVAS_TOKENS
            if self._thinking and not (self._partial_answer or self._is_last_step)
            else None,
            continue_final_message=self._partial_answer is not None,
            visible_text=self._partial_answer.visible_text if self._partial_answer else "",
        )

    def on_reply(self, reply: LoopInput) -> RunTools | TurnResult | None:
        """What follows from a reply; None: the model is asked again."""
        if not isinstance(reply, Reply):
            raise TypeError("CallModel is answered with a Reply or Ended")
        if (
            self._partial_answer is not None
            and self._partial_answer.visible_text
            and is_blank(reply.text)
            and not reply.calls
        ):
            return self._finish("cut", self._partial_answer.visible_text, sentences.NOTHING_TO_ADD)
        whole = reply if self._partial_answer is None else self._partial_answer.merge_reply(reply)
        verdict = parse_reply(whole, self._offered_tools, self._step, self._call_ids)
        if (
            isinstance(verdict, AnswerReply)
            and reply.finish_reason == "length"
            and drafts.can_continue(whole.text)
        ):
            if self._partial_answer is None:
                begun = drafts.start_partial_answer(self._prompt, reply)
            else:
                begun = self._partial_answer.extend(reply)
            if self._can_continue(begun):
                self._partial_answer = begun
                self._retry_reason = "more"
                return None
        return self._act_on_verdict(verdict, whole)

    def _act_on_verdict(self, verdict: ReplyVerdict, reply: Reply) -> RunTools | TurnResult | None:
        match verdict:
            case ToolCallsReply():
                return self._run_calls(verdict, reply.reasoning or None)
            case AnswerReply():
                return self._finish_answer(verdict, has_more=reply.finish_reason == "length")
            case CutReply():
                return self._on_cut(verdict)
            case EmptyReply():
                if self._retry_empty():
                    return None
                return self._give_up("empty", sentences.NO_USABLE_ANSWER)

    def on_results(self, calls: tuple[CheckedCall, ...], results: LoopInput) -> None:
        """Put the results behind their calls; a call without one gets one that says so."""
        if not isinstance(results, tuple):
            raise TypeError("RunTools is answered with a tuple of ToolResult")
        came = {result.call.id: result for result in results}
        told = []
        for wanted in calls:
            result = came.get(wanted.call.id) or ToolResult(wanted.call, sentences.NO_RESULT, "unknown")
            told.append(Message("tool", result.text, call_id=wanted.call.id, images=result.images))
            if result.outcome == "ok":
                self._findings.append((wanted.call.name, prompting.strip_data_marks(result.text)))
        self._messages.extend(self._token_budget.fit_results(told))

    def on_interruption(self, interruption: TurnInterruption) -> TurnResult:
        """The turn was ended from outside."""
        raw = "" if interruption.partial is None else interruption.partial.text
        text = extract_visible_text(raw if self._partial_answer is None else self._partial_answer.text + raw)
        match interruption.reason:
            case "stopped":
                return self._finish("stopped", text, sentences.STOPPED)
            case "seconds" if text:
                return self._finish("seconds", text, sentences.TIME_UP)
            case "seconds":
                return self._give_up("seconds", sentences.OUT_OF_TIME)
        return self._finish("cut", text, CUT_AT_LENGTH, has_more=True)

    @property
    def _is_last_step(self) -> bool:
        return self._step >= self._limits.max_steps

    @property
    def _is_replayed(self) -> bool:
        """Whether this step was played before, so that what follows from it has been decided."""
        return self._step <= self._limits.replayed_steps

    @property
    def _offered_tools(self) -> Mapping[str, Tool]:
        is_full = self._token_budget.is_full and not self._is_replayed
        if self._is_last_step or self._failed_steps >= NO_TOOLS_AFTER_FAILED_STEPS or is_full:
            return {}
        return self._tools

    @property
    def _has_used_all_steps(self) -> bool:
        """Whether it is the limit that keeps the model from using tools."""
        return self._is_last_step and self._step > 1 and bool(self._tools)

    @property
    def _prompt(self) -> tuple[Message, ...]:
        """The prompt of this step."""
        withdrawn = self._tools and not self._offered_tools and self._step > 1
        if withdrawn:
            return (*self._messages, Message("user", sentences.LAST_CALL))
        return tuple(self._messages)

    @property
    def _max_tokens(self) -> int:
        """The limit of this call: whole canvases, for fewer tokens take as long."""
        canvases = -(-self._limits.max_tokens // CANVAS_TOKENS)
        if self._retry_reason == "cut":
            canvases *= 2
        elif self._partial_answer is not None:
            canvases = min(canvases, self._limits.max_canvases - self._partial_answer.canvases)
        if self._thinking and self._partial_answer is None:
            before = self._limits.thinking_canvases
        else:
            before = 0
        return CANVAS_TOKENS * (before + canvases)

    def _can_continue(self, partial_answer: PartialAnswer) -> bool:
        """Whether the model is asked for the rest of an answer, within the turn's bounds and the prompt's."""
        if self._is_last_step or partial_answer.canvases >= self._limits.max_canvases:
            return False
        return self._is_replayed or (
            self._limits.can_continue and self._token_budget.has_room_for(partial_answer.messages[-1:])
        )

    def _on_cut(self, cut: CutReply) -> TurnResult | None:
        """A call or a thought met the limit, or a thought the brake: once more, with more room or without
        thinking.
        """
        if cut.kind == "thought" and self._thinking and not self._is_last_step:
            self._thinking = self._may_think = False
            self._retry_reason = "brake"
            return None
        if self._is_last_step or self._retry_reason == "cut":
            return self._give_up("cut", sentences.ANSWER_TOO_LONG, cut.narration)
        self._retry_reason = "cut"
        return None

    def _retry_empty(self) -> bool:
        """Whether the model is asked again though it said nothing: once as before, then once with thinking."""
        if self._is_last_step or self._retry_reason == "silent":
            return False
        if self._retry_reason != "empty":
            self._retry_reason = "empty"
            return True
        return self._start_thinking("silent")

    def _start_thinking(self, reason: Literal["failing", "silent"]) -> bool:
        """Whether thinking was switched on."""
        if self._thinking or not self._may_think:
            return False
        self._thinking = True
        self._retry_reason = reason
        return True

    def _run_calls(self, verdict: ToolCallsReply, reasoning: str | None) -> RunTools:
        self._retry_reason = self._partial_answer = None
        judged = self._call_history.refuse_repeats(verdict.calls)
        wanted = tuple(one for one in judged if isinstance(one, CheckedCall))
        refused = tuple(one for one in judged if isinstance(one, ToolResult))
        calls = tuple(one.call for one in judged)
        self._call_ids.update(call.id for call in calls)
        self._failed_steps = 0 if wanted else self._failed_steps + 1
        if not self._token_budget.has_room_for(
            [Message("assistant", verdict.narration, calls, reasoning=reasoning)]
        ):
            reasoning = None  # what was thought helps the next step, but what the tools find is needed more
        if verdict.narration:
            self._messages.append(Message("assistant", verdict.narration, reasoning=reasoning))
            reasoning = None
        self._messages.append(Message("assistant", calls=calls, reasoning=reasoning))
        self._messages.extend(Message("tool", result.text, call_id=result.call.id) for result in refused)
        if self._failed_steps == THINK_AFTER_FAILED_STEPS and self._step + 1 < self._limits.max_steps:
            self._start_thinking("failing")
        said = self._take_new_messages()
        self._token_budget.spend(said)
        return RunTools(wanted, refused, self._step, said)

    def _finish_answer(self, answer: AnswerReply, *, has_more: bool) -> TurnResult:
        if answer.note is not None:
            return self._finish("cut", answer.text, answer.note, has_more=has_more)
        if self._has_used_all_steps:
            return self._finish("steps", answer.text, sentences.format_out_of_steps(self._limits.max_steps))
        return self._finish("answered", answer.text, None)

    def _give_up(self, ending: Ending, note: str, narration: str = "") -> TurnResult:
        """End without an answer: say why, and what was found."""
        if self._has_used_all_steps and ending != "seconds":
            ending = "steps"
            note = sentences.format_out_of_steps(self._limits.max_steps)
        self._messages.append(Message("assistant", "\n\n".join(filter(None, [narration, note]))))
        told = sentences.append_findings(note, self._findings)
        text = "\n\n".join(filter(None, [sentences.close_code_block(narration), told]))
        return TurnResult(text, ending, note, self._take_new_messages())

    def _finish(self, ending: Ending, text: str, note: str | None, *, has_more: bool = False) -> TurnResult:
        self._messages.append(Message("assistant", text or note or ""))
        return TurnResult(
            sentences.append_note(text, note) if text else note or "",
            ending,
            note,
            self._take_new_messages(),
            has_more,
        )

    def _take_new_messages(self) -> tuple[Message, ...]:
        new = tuple(self._messages[self._reported_count :])
        self._reported_count = len(self._messages)
        return new
