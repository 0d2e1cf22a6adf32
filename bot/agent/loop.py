"""What a turn does next, step by step: yields events and takes their results. Pure: no I/O, clock or await.

The same inputs give the same events, so a turn continues after a crash by replaying its stored replies and
results.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Literal

from bot.agent import continuation, notices
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
from bot.agent.prompt import strip_data_marks
from bot.agent.reply_parser import (
    CUT_AT_LENGTH,
    AnswerReply,
    CutReply,
    EmptyReply,
    ToolCallsReply,
    extract_visible_text,
    is_blank,
    parse_reply,
)
from bot.agent.token_budget import TokenBudget
from bot.agent.tool_calls import CallHistory, CheckedCall
from bot.canvases import CANVAS_TOKENS, MAX_CALL_CANVASES, THINKING_CANVASES, count_canvases
from bot.domain import Message, Reply, ToolResult
from bot.translations.translator import ENGLISH, Translator
from tools.base import Tool

THINK_AFTER_FAILED_STEPS = 2  # steps in a row without one call that could run, after which thinking may help
NO_TOOLS_AFTER_FAILED_STEPS = 3  # and after which no tools are offered any more


def run_turn(
    prompt: tuple[Message, ...],
    tools: Mapping[str, Tool],
    limits: TurnLimits,
    thinking: bool,
    translate: Translator = ENGLISH,
) -> Generator[LoopEvent, LoopInput, None]:
    """Run one turn: call the model, run the tools it asks for, and again, until there is a TurnResult.

    `next` gives the first event, `send` takes the answer to an event and gives the next one. `prompt` ends
    in the newest user message, `tools` are those offered, `thinking` is what was decided for the turn;
    `translate` is for the notes that the user reads.
    After TurnResult the generator is exhausted. Raises TypeError when an event is answered with what
    belongs to another.
    """
    turn = _TurnState(prompt, tools, limits, thinking, translate)
    while True:
        reply = yield turn.begin_step()
        event = turn.decide_next(reply)
        if isinstance(event, RunTools):
            results = yield event
            turn.add_results(event.calls, results)
        elif isinstance(event, TurnResult):
            yield event
            return


class _TurnState:
    """What is known of a turn while it runs: its messages, and what it has tried."""

    def __init__(
        self,
        prompt: tuple[Message, ...],
        tools: Mapping[str, Tool],
        limits: TurnLimits,
        thinking: bool,
        translate: Translator,
    ) -> None:
        self._translate = translate
        self._messages = list(prompt)
        self._reported_count = len(prompt)  # messages that an event has passed on
        self._tools = tools
        self._offered_tools: Mapping[str, Tool] = {}  # in this step
        self._limits = limits
        self._thinking = thinking
        self._may_think = limits.may_think
        self._token_budget = TokenBudget(limits.token_budget, limits.image_tokens)
        self._step = 0
        self._retry_reason: RetryReason | None = None
        self._partial_answer: PartialAnswer | None = None
        self._failed_steps = 0  # in a row
        self._call_history = CallHistory()
        self._call_ids: set[str] = set()
        self._findings: dict[tuple[str, str], str] = {}  # what tools found, by name and arguments

    def begin_step(self) -> CallModel:
        """Begin the next step, with the call of the model that it needs."""
        self._step += 1
        self._offered_tools = self._choose_tools()
        call = CallModel(
            messages=self._prompt,
            tool_choice="auto" if self._offered_tools else "none",
            max_tokens=self._max_tokens,
            step=self._step,
            retry_reason=self._retry_reason,
            new_messages=self._take_new_messages(),
            thinking=self._thinking,
            max_thinking_tokens=self._max_thinking_tokens,
        )
        if self._partial_answer is None:
            return call
        return replace(
            call,
            messages=self._partial_answer.messages,
            continue_final_message=True,
            visible_text=self._partial_answer.visible_text,
        )

    def decide_next(self, loop_input: LoopInput) -> RunTools | TurnResult | None:
        """Decide what follows from a reply or an interruption; None: the model is called again."""
        match loop_input:
            case Reply():
                return self._on_reply(loop_input)
            case TurnInterruption():
                return self._on_interruption(loop_input)
        raise TypeError("CallModel is answered with a Reply or a TurnInterruption")

    def add_results(self, calls: tuple[CheckedCall, ...], results: LoopInput) -> None:
        """Put the results behind their calls; a call without a result gets one that says so."""
        if not isinstance(results, tuple):
            raise TypeError("RunTools is answered with a tuple of ToolResult")
        results_by_id = {result.call.id: result for result in results}
        messages = []
        for checked in calls:
            call = checked.call
            result = results_by_id.get(call.id) or ToolResult(call, notices.NO_RESULT, "unknown")
            messages.append(Message("tool", result.text, call_id=call.id, images=result.images))
            if result.outcome == "ok":
                # A repeated call is one finding, with its latest result.
                self._findings.pop((call.name, call.arguments), None)
                self._findings[call.name, call.arguments] = strip_data_marks(result.text)
        self._messages.extend(self._token_budget.fit_results(messages))

    @property
    def _is_last_step(self) -> bool:
        return self._step >= self._limits.max_steps

    @property
    def _is_replayed(self) -> bool:
        """Whether this step ran before the crash, so that what follows from it has been decided."""
        return self._step <= self._limits.replayed_steps

    def _choose_tools(self) -> Mapping[str, Tool]:
        is_full = self._token_budget.is_full and not self._is_replayed
        if self._is_last_step or self._failed_steps >= NO_TOOLS_AFTER_FAILED_STEPS or is_full:
            return {}
        return self._tools

    @property
    def _has_used_all_steps(self) -> bool:
        """Whether it is the step limit that keeps the model from using tools."""
        return self._is_last_step and self._step > 1 and bool(self._tools)

    @property
    def _are_tools_withdrawn(self) -> bool:
        return bool(self._tools) and not self._offered_tools and self._step > 1

    @property
    def _prompt(self) -> tuple[Message, ...]:
        """The prompt of this step; it says so when the tools of earlier steps are withdrawn."""
        if self._are_tools_withdrawn:
            return (*self._messages, Message("user", notices.LAST_CALL))
        return tuple(self._messages)

    @property
    def _max_tokens(self) -> int:
        """The limit of this call: whole canvases, for fewer tokens take as long."""
        canvases = count_canvases(self._limits.max_tokens)
        if self._retry_reason == "cut":
            canvases = max(2 * canvases, MAX_CALL_CANVASES)
        elif self._partial_answer is not None:
            canvases = min(canvases, self._limits.max_canvases - self._partial_answer.canvases)
        if self._thinking and self._partial_answer is None:
            canvases += THINKING_CANVASES
        return CANVAS_TOKENS * canvases

    @property
    def _max_thinking_tokens(self) -> int | None:
        # No call follows the last one: it may think as long as its tokens last.
        if not self._thinking or self._partial_answer is not None or self._is_last_step:
            return None
        return CANVAS_TOKENS * THINKING_CANVASES

    def _on_reply(self, reply: Reply) -> RunTools | TurnResult | None:
        if self._partial_answer is not None:
            shown_text = self._partial_answer.visible_text
            if shown_text and is_blank(reply.text) and not reply.calls:
                return self._finish("cut", shown_text, notices.NOTHING_TO_ADD)
            full_reply = self._partial_answer.merge_reply(reply)
        else:
            full_reply = reply
        verdict = parse_reply(full_reply, self._offered_tools, self._step, self._call_ids)
        match verdict:
            case ToolCallsReply():
                return self._on_tool_calls(verdict, full_reply.reasoning or None)
            case AnswerReply() if self._are_tools_withdrawn and full_reply.calls:
                # What stands beside a call announces it and is no answer.
                return self._give_up("empty", notices.NO_USABLE_ANSWER, verdict.text)
            case AnswerReply():
                if self._continue_answer(reply, full_reply.text):
                    return None
                return self._finish_answer(verdict, has_more=reply.finish_reason == "length")
            case CutReply():
                return self._on_cut(verdict)
            case EmptyReply():
                if self._retry_empty():
                    return None
                return self._give_up("empty", notices.NO_USABLE_ANSWER)

    def _on_tool_calls(self, reply: ToolCallsReply, reasoning: str | None) -> RunTools:
        self._retry_reason = None
        self._partial_answer = None
        checked_calls = self._call_history.refuse_repeats(reply.calls)
        runnable = tuple(checked for checked in checked_calls if isinstance(checked, CheckedCall))
        refused = tuple(checked for checked in checked_calls if isinstance(checked, ToolResult))
        calls = tuple(checked.call for checked in checked_calls)
        self._call_ids.update(call.id for call in calls)
        if runnable:
            self._failed_steps = 0
        else:
            self._failed_steps += 1
        if not self._token_budget.can_fit(
            [Message("assistant", reply.narration, calls, reasoning=reasoning)]
        ):
            reasoning = None  # what was thought helps the next step, but what the tools find is needed more
        if reply.narration:
            self._messages.append(Message("assistant", reply.narration, reasoning=reasoning))
            reasoning = None
        self._messages.append(Message("assistant", calls=calls, reasoning=reasoning))
        self._messages.extend(Message("tool", result.text, call_id=result.call.id) for result in refused)
        if self._failed_steps == THINK_AFTER_FAILED_STEPS and self._step + 1 < self._limits.max_steps:
            self._start_thinking("failing")
        new_messages = self._take_new_messages()
        self._token_budget.spend(new_messages)
        return RunTools(runnable, refused, self._step, new_messages)

    def _continue_answer(self, reply: Reply, raw_text: str) -> bool:
        """Have the model continue an answer that was cut; False: it ends here. `raw_text` is all of it."""
        if reply.finish_reason != "length" or not continuation.can_send_back(raw_text):
            return False
        if self._partial_answer is None:
            partial_answer = continuation.start_partial_answer(self._prompt, reply)
        else:
            partial_answer = self._partial_answer.extend(reply)
        if not self._may_continue(partial_answer):
            return False
        self._partial_answer = partial_answer
        self._retry_reason = "more"
        return True

    def _may_continue(self, partial_answer: PartialAnswer) -> bool:
        """Whether the limits of the turn and of its prompt allow a call for the rest of an answer."""
        if self._is_last_step or partial_answer.canvases >= self._limits.max_canvases:
            return False
        if self._is_replayed:
            return True
        return self._limits.can_continue and self._token_budget.can_fit(partial_answer.messages[-1:])

    def _finish_answer(self, answer: AnswerReply, *, has_more: bool) -> TurnResult:
        if answer.note is not None:
            return self._finish("cut", answer.text, answer.note, has_more=has_more)
        if self._has_used_all_steps:
            return self._finish("steps", answer.text, notices.OUT_OF_STEPS)
        return self._finish("answered", answer.text, None)

    def _on_cut(self, cut: CutReply) -> TurnResult | None:
        """Retry once: after a cut thought without thinking, after a cut call with a higher limit.

        A cut call cannot be continued: the server's parser looks for the beginning of a call in what is new.
        """
        if cut.kind == "thought" and self._thinking and not self._is_last_step:
            self._thinking = False
            self._may_think = False
            self._retry_reason = "brake"
            return None
        if self._is_last_step or self._retry_reason == "cut":
            note = notices.CALL_TOO_LONG if cut.kind == "call" else notices.ANSWER_TOO_LONG
            return self._give_up("cut", note, cut.narration)
        self._retry_reason = "cut"
        return None

    def _retry_empty(self) -> bool:
        """Retry after an empty reply: once as before, then once with thinking; False: no more."""
        if self._is_last_step or self._retry_reason == "silent":
            return False
        if self._retry_reason != "empty":
            self._retry_reason = "empty"
            return True
        return self._start_thinking("silent")

    def _on_interruption(self, interruption: TurnInterruption) -> TurnResult:
        """End the turn, as was decided outside of it."""
        raw_text = "" if self._partial_answer is None else self._partial_answer.text
        if interruption.partial is not None:
            raw_text += interruption.partial.text
        text = extract_visible_text(raw_text)
        match interruption.reason:
            case "stopped":
                return self._finish("stopped", text, notices.STOPPED)
            case "edited":
                return self._finish("edited", text, notices.EDITED)
            case "seconds" if text:
                return self._finish("seconds", text, notices.TIME_UP)
            case "seconds":
                return self._give_up("seconds", notices.OUT_OF_TIME)
        return self._finish("cut", text, CUT_AT_LENGTH, has_more=True)

    def _start_thinking(self, reason: Literal["failing", "silent"]) -> bool:
        """Switch thinking on; False if it is on already, or may not be."""
        if self._thinking or not self._may_think:
            return False
        self._thinking = True
        self._retry_reason = reason
        return True

    def _give_up(self, ending: Ending, note: str, narration: str = "") -> TurnResult:
        """End without an answer: say why, and what was found."""
        if self._has_used_all_steps and ending != "seconds":
            ending = "steps"
            note = notices.OUT_OF_STEPS
        self._messages.append(
            Message("assistant", "\n\n".join(filter(None, [narration, self._format_note(ENGLISH, note)])))
        )
        findings = [(tool, text) for (tool, _), text in self._findings.items()]
        shown_note = self._format_note(self._translate, note)
        explanation = notices.append_findings(shown_note, findings, self._translate(notices.FOUND_SO_FAR))
        text = "\n\n".join(filter(None, [notices.close_code_block(narration), explanation]))
        return TurnResult(text, ending, shown_note, self._take_new_messages())

    def _finish(self, ending: Ending, text: str, note: str | None, *, has_more: bool = False) -> TurnResult:
        """End with `text`, or with the note alone where there is none."""
        shown_note = None
        if note is not None:
            shown_note = self._format_note(self._translate, note)
            note = self._format_note(ENGLISH, note)
        self._messages.append(Message("assistant", text or note or ""))
        if text:
            shown_text = notices.append_note(text, shown_note)
        else:
            shown_text = shown_note or ""
        return TurnResult(shown_text, ending, shown_note, self._take_new_messages(), has_more)

    def _format_note(self, translate: Translator, note: str) -> str:
        """A note in a language; the model's own history keeps it in English."""
        return translate(note, steps=self._limits.max_steps)

    def _take_new_messages(self) -> tuple[Message, ...]:
        """The messages since the last event, which the next one passes on."""
        new_messages = tuple(self._messages[self._reported_count :])
        self._reported_count = len(self._messages)
        return new_messages
