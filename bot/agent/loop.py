"""What a turn does next, step by step: yields events, takes results. Pure: no I/O, no clock, no await.

The same inputs give the same events, so a turn goes on after a crash by playing its stored replies and
results again.
"""

from collections.abc import Generator, Mapping
from typing import Literal

from bot.agent import continuation as drafts
from bot.agent import notices as sentences
from bot.agent import prompt as prompting
from bot.agent.continuation import Draft
from bot.agent.events import Again, CallModel, Ended, Ending, Event, Finished, Given, Limits, RunTools
from bot.agent.reply_parser import CUT_AT_LENGTH, Answer, Calls, Cut, Empty, Verdict, blank, judge, shown
from bot.agent.token_budget import Room
from bot.agent.tool_calls import Made, Wanted
from bot.domain import CANVAS, Message, Reply, ToolResult
from tools.base import Tool

FAILING = 2  # steps in a row without one call that could run, after which thinking may help
FAILED = 3  # and after which no tools are offered any more


def play(
    prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: Limits, thinking: bool
) -> Generator[Event, Given, None]:
    """Play one turn: `next` gives the first event, `send` takes what came of it and gives the following one.

    `prompt` ends in the newest user message, `tools` are those offered, `thinking` is what was decided for
    the turn. After Finished the generator is exhausted. Raises TypeError when an event is answered with what
    belongs to another.
    """
    turn = _Turn(prompt, tools, limits, thinking)
    while True:
        given = yield turn.ask()
        event: Event | None
        if isinstance(given, Ended):
            event = turn.end(given)
        else:
            event = turn.hear(given)
        if event is None:
            continue
        given = yield event
        if isinstance(event, Finished):
            return
        turn.take(event.calls, given)


class _Turn:
    """What is known of a turn while it is played: its messages, and what it has tried."""

    def __init__(
        self, prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: Limits, thinking: bool
    ) -> None:
        self._messages = list(prompt)
        self._handed = len(prompt)
        self._tools = tools
        self._limits = limits
        self._thinking = thinking
        self._may_think = limits.may_think
        self._room = Room(limits.room)
        self._step = 0
        self._again: Again | None = None
        self._draft: Draft | None = None
        self._failed = 0
        self._made = Made()
        self._ids: set[str] = set()
        self._found: list[tuple[str, str]] = []

    def ask(self) -> CallModel:
        """The next model call."""
        self._step += 1
        return CallModel(
            messages=self._asked if self._draft is None else self._draft.messages,
            tool_choice="auto" if self._offered else "none",
            max_tokens=self._max_tokens,
            step=self._step,
            again=self._again,
            said=self._said(),
            thinking=self._thinking,
            # The last call has no other after it: it may think as long as its tokens last.
            brake=self._limits.thinking * CANVAS
            if self._thinking and not (self._draft or self._last)
            else None,
            continues=self._draft is not None,
            so_far=self._draft.shown if self._draft else "",
        )

    def hear(self, reply: Given) -> RunTools | Finished | None:
        """What follows from a reply; None: the model is asked again."""
        if not isinstance(reply, Reply):
            raise TypeError("CallModel is answered with a Reply or Ended")
        if self._draft is not None and self._draft.shown and blank(reply.text) and not reply.calls:
            return self._finish("cut", self._draft.shown, sentences.NO_MORE)
        whole = reply if self._draft is None else self._draft.joined(reply)
        verdict = judge(whole, self._offered, self._step, self._ids)
        if isinstance(verdict, Answer) and reply.finish_reason == "length" and drafts.may_go_on(whole.text):
            if self._draft is None:
                begun = drafts.begin(self._asked, reply)
            else:
                begun = self._draft.further(reply)
            if self._goes_on(begun):
                self._draft = begun
                self._again = "more"
                return None
        return self._follow(verdict, whole)

    def _follow(self, verdict: Verdict, reply: Reply) -> RunTools | Finished | None:
        match verdict:
            case Calls():
                return self._run(verdict, reply.reasoning or None)
            case Answer():
                return self._answer(verdict, more=reply.finish_reason == "length")
            case Cut():
                return self._cut(verdict)
            case Empty():
                if self._silent():
                    return None
                return self._give_up("empty", sentences.NOTHING)

    def take(self, calls: tuple[Wanted, ...], results: Given) -> None:
        """Put the results behind their calls; a call without one gets one that says so."""
        if not isinstance(results, tuple):
            raise TypeError("RunTools is answered with a tuple of ToolResult")
        came = {result.call.id: result for result in results}
        told = []
        for wanted in calls:
            result = came.get(wanted.call.id) or ToolResult(wanted.call, sentences.NO_RESULT, "unknown")
            told.append(Message("tool", result.text, call_id=wanted.call.id, images=result.images))
            if result.outcome == "ok":
                self._found.append((wanted.call.name, prompting.unmarked(result.text)))
        self._messages.extend(self._room.fit(told))

    def end(self, ended: Ended) -> Finished:
        """The turn was ended from outside."""
        raw = "" if ended.partial is None else ended.partial.text
        text = shown(raw if self._draft is None else self._draft.text + raw)
        match ended.why:
            case "stopped":
                return self._finish("stopped", text, sentences.STOPPED)
            case "seconds" if text:
                return self._finish("seconds", text, sentences.TIME_UP)
            case "seconds":
                return self._give_up("seconds", sentences.OUT_OF_TIME)
        return self._finish("cut", text, CUT_AT_LENGTH, more=True)

    @property
    def _last(self) -> bool:
        return self._step >= self._limits.steps

    @property
    def _is_known(self) -> bool:
        """Whether this step was played before, so that what follows from it has been decided."""
        return self._step <= self._limits.played

    @property
    def _offered(self) -> Mapping[str, Tool]:
        is_full = self._room.is_full and not self._is_known
        if self._last or self._failed >= FAILED or is_full:
            return {}
        return self._tools

    @property
    def _used_up(self) -> bool:
        """Whether it is the limit that keeps the model from using tools."""
        return self._last and self._step > 1 and bool(self._tools)

    @property
    def _asked(self) -> tuple[Message, ...]:
        """The prompt of this step."""
        withdrawn = self._tools and not self._offered and self._step > 1
        if withdrawn:
            return (*self._messages, Message("user", sentences.LAST_CALL))
        return tuple(self._messages)

    @property
    def _max_tokens(self) -> int:
        """The limit of this call: whole canvases, for fewer tokens take as long."""
        canvases = -(-self._limits.max_tokens // CANVAS)
        if self._again == "cut":
            canvases *= 2
        elif self._draft is not None:
            canvases = min(canvases, self._limits.canvases - self._draft.canvases)
        if self._thinking and self._draft is None:
            before = self._limits.thinking
        else:
            before = 0
        return CANVAS * (before + canvases)

    def _goes_on(self, begun: Draft) -> bool:
        """Whether the model is asked for the rest of an answer, within the turn's bounds and the prompt's."""
        if self._last or begun.canvases >= self._limits.canvases:
            return False
        return self._is_known or (self._limits.continues and self._room.holds(begun.messages[-1:]))

    def _cut(self, cut: Cut) -> Finished | None:
        """A call or a thought met the limit, or a thought the brake: once more, with more room or without
        thinking.
        """
        if cut.what == "thought" and self._thinking and not self._last:
            self._thinking = self._may_think = False
            self._again = "brake"
            return None
        if self._last or self._again == "cut":
            return self._give_up("cut", sentences.NO_ROOM, cut.narration)
        self._again = "cut"
        return None

    def _silent(self) -> bool:
        """Whether the model is asked again though it said nothing: once as before, then once with thinking."""
        if self._last or self._again == "silent":
            return False
        if self._again != "empty":
            self._again = "empty"
            return True
        return self._think("silent")

    def _think(self, why: Literal["failing", "silent"]) -> bool:
        """Whether thinking was switched on."""
        if self._thinking or not self._may_think:
            return False
        self._thinking = True
        self._again = why
        return True

    def _run(self, verdict: Calls, reasoning: str | None) -> RunTools:
        self._again = self._draft = None
        judged = self._made.without_repeats(verdict.calls)
        wanted = tuple(one for one in judged if isinstance(one, Wanted))
        refused = tuple(one for one in judged if isinstance(one, ToolResult))
        calls = tuple(one.call for one in judged)
        self._ids.update(call.id for call in calls)
        self._failed = 0 if wanted else self._failed + 1
        if not self._room.holds([Message("assistant", verdict.narration, calls, reasoning=reasoning)]):
            reasoning = None  # what was thought helps the next step, but what the tools find is needed more
        if verdict.narration:
            self._messages.append(Message("assistant", verdict.narration, reasoning=reasoning))
            reasoning = None
        self._messages.append(Message("assistant", calls=calls, reasoning=reasoning))
        self._messages.extend(Message("tool", result.text, call_id=result.call.id) for result in refused)
        if self._failed == FAILING and self._step + 1 < self._limits.steps:
            self._think("failing")
        said = self._said()
        self._room.take(said)
        return RunTools(wanted, refused, self._step, said)

    def _answer(self, answer: Answer, *, more: bool) -> Finished:
        if answer.note is not None:
            return self._finish("cut", answer.text, answer.note, more=more)
        if self._used_up:
            return self._finish("steps", answer.text, sentences.out_of_steps(self._limits.steps))
        return self._finish("answered", answer.text, None)

    def _give_up(self, ending: Ending, sentence: str, narration: str = "") -> Finished:
        """End without an answer: say why, and what was found."""
        if self._used_up and ending != "seconds":
            ending = "steps"
            sentence = sentences.out_of_steps(self._limits.steps)
        self._messages.append(Message("assistant", "\n\n".join(filter(None, [narration, sentence]))))
        told = sentences.with_findings(sentence, self._found)
        text = "\n\n".join(filter(None, [sentences.closed(narration), told]))
        return Finished(text, ending, sentence, self._said())

    def _finish(self, ending: Ending, text: str, note: str | None, *, more: bool = False) -> Finished:
        self._messages.append(Message("assistant", text or note or ""))
        return Finished(
            sentences.with_note(text, note) if text else note or "", ending, note, self._said(), more
        )

    def _said(self) -> tuple[Message, ...]:
        new = tuple(self._messages[self._handed :])
        self._handed = len(self._messages)
        return new
