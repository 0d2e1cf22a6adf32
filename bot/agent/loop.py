"""What a turn does next, step by step: yields events, takes results. Pure: no I/O, no clock, no await.

The same inputs give the same events, so a turn goes on after a crash by playing its stored replies and results again.
"""

import math
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Literal

from bot.agent import sentences
from bot.agent.calls import Wanted, refuse
from bot.agent.replies import Answer, Calls, Cut, Empty, judge, shown
from bot.domain import CANVAS, Message, Reply, ToolResult
from tools.base import Tool

FAILED = 3  # steps in a row without one call that could run
REPEATS = 2  # times the same call may run in one turn

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
class RunTools:
    """Run these side by side. Answer with one ToolResult for each, in any order; `calls` may be empty.

    `refused` are decided, and part of `said` already; they are here for the account only.
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


def play(prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: Limits) -> Generator[Event, Given, None]:
    """Play one turn: `next` gives the first event, `send` takes what came of it and gives the following one.

    `prompt` ends in the newest user message, `tools` are those offered. After Finished the generator is exhausted.
    Raises TypeError when an event is answered with what belongs to another.
    """
    turn = _Turn(prompt, tools, limits)
    while True:
        given = yield turn.ask()
        event = turn.end(given) if isinstance(given, Ended) else turn.hear(given)
        if event is None:
            continue
        given = yield event
        if isinstance(event, Finished):
            return
        turn.take(event.calls, given)


class _Turn:
    """What is known of a turn while it is played: its messages, and what it has tried."""

    def __init__(self, prompt: tuple[Message, ...], tools: Mapping[str, Tool], limits: Limits) -> None:
        self._messages = list(prompt)
        self._handed = len(prompt)
        self._tools = tools
        self._limits = limits
        self._step = 0
        self._again: Literal["empty", "cut"] | None = None
        self._failed = 0
        self._made: Counter[tuple[str, str]] = Counter()
        self._ids: set[str] = set()
        self._found: list[tuple[str, str]] = []

    def ask(self) -> CallModel:
        """The next model call."""
        self._step += 1
        said = self._said()
        messages = tuple(self._messages)
        if self._tools and not self._offered and self._step > 1:
            messages = (*messages, Message("user", sentences.LAST_CALL))
        room = self._limits.max_tokens
        if self._again == "cut":
            room = math.ceil(2 * room / CANVAS) * CANVAS
        return CallModel(messages, "auto" if self._offered else "none", room, self._step, self._again, said)

    def hear(self, reply: Given) -> RunTools | Finished | None:
        """What follows from a reply; None: the model is asked again."""
        if not isinstance(reply, Reply):
            raise TypeError("CallModel is answered with a Reply or Ended")
        verdict = judge(reply, self._offered, self._step, self._ids)
        match verdict:
            case Calls():
                return self._run(verdict, reply.reasoning or None)
            case Answer():
                return self._answer(verdict)
            case Cut():
                return None if self._repeat("cut") else self._give_up("cut", sentences.NO_ROOM, verdict.narration)
            case Empty():
                return None if self._repeat("empty") else self._give_up("empty", sentences.NOTHING)

    def take(self, calls: tuple[Wanted, ...], results: Given) -> None:
        """Put the results behind their calls; a call without one gets one that says so."""
        if not isinstance(results, tuple):
            raise TypeError("RunTools is answered with a tuple of ToolResult")
        came = {result.call.id: result for result in results}
        for wanted in calls:
            result = came.get(wanted.call.id) or ToolResult(wanted.call, sentences.NO_RESULT, "unknown")
            self._messages.append(Message("tool", result.text, call_id=wanted.call.id))
            if result.outcome == "ok":
                self._found.append((wanted.call.name, result.text))

    def end(self, ended: Ended) -> Finished:
        """The turn was ended from outside."""
        text = "" if ended.partial is None else shown(ended.partial.text)
        if ended.why == "stopped":
            return self._finish("stopped", text, sentences.STOPPED)
        if text:
            return self._finish("seconds", text, sentences.TIME_UP)
        return self._give_up("seconds", sentences.OUT_OF_TIME)

    @property
    def _last(self) -> bool:
        return self._step >= self._limits.steps

    @property
    def _offered(self) -> Mapping[str, Tool]:
        return {} if self._last or self._failed >= FAILED else self._tools

    @property
    def _used_up(self) -> bool:
        """Whether it is the limit that keeps the model from using tools."""
        return self._last and self._step > 1 and bool(self._tools)

    def _repeat(self, why: Literal["empty", "cut"]) -> bool:
        """Whether the call may be made again; once in a row for the same reason."""
        if self._last or self._again == why:
            return False
        self._again = why
        return True

    def _run(self, verdict: Calls, reasoning: str | None) -> RunTools:
        self._again = None
        judged = self._without_repeats(verdict.calls)
        wanted = tuple(one for one in judged if isinstance(one, Wanted))
        refused = tuple(one for one in judged if isinstance(one, ToolResult))
        calls = tuple(one.call for one in judged)
        self._ids.update(call.id for call in calls)
        self._failed = 0 if wanted else self._failed + 1
        if verdict.narration:
            self._messages.append(Message("assistant", verdict.narration, reasoning=reasoning))
            reasoning = None
        self._messages.append(Message("assistant", calls=calls, reasoning=reasoning))
        self._messages.extend(Message("tool", result.text, call_id=result.call.id) for result in refused)
        return RunTools(wanted, refused, self._step, self._said())

    def _without_repeats(self, judged: tuple[Wanted | ToolResult, ...]) -> tuple[Wanted | ToolResult, ...]:
        """A call made twice in one reply runs once, and no more than REPEATS times in the turn."""
        here: set[tuple[str, str]] = set()
        kept: list[Wanted | ToolResult] = []
        for one in judged:
            same = (one.call.name, one.call.arguments)
            if isinstance(one, Wanted) and (same in here or self._made[same] >= REPEATS):
                kept.append(refuse(one.call, sentences.REPEATED_CALL))
                continue
            if isinstance(one, Wanted):
                here.add(same)
                self._made[same] += 1
            kept.append(one)
        return tuple(kept)

    def _answer(self, answer: Answer) -> Finished:
        if answer.note is not None:
            return self._finish("cut", answer.text, answer.note)
        if self._used_up:
            return self._finish("steps", answer.text, sentences.out_of_steps(self._limits.steps))
        return self._finish("answered", answer.text, None)

    def _give_up(self, ending: Ending, sentence: str, narration: str = "") -> Finished:
        """End without an answer: say why, and what was found."""
        if self._used_up and ending != "seconds":
            ending, sentence = "steps", sentences.out_of_steps(self._limits.steps)
        self._messages.append(Message("assistant", "\n\n".join(filter(None, [narration, sentence]))))
        told = sentences.with_findings(sentence, self._found)
        text = "\n\n".join(filter(None, [sentences.closed(narration), told]))
        return Finished(text, ending, sentence, self._said())

    def _finish(self, ending: Ending, text: str, note: str | None) -> Finished:
        self._messages.append(Message("assistant", text or note or ""))
        return Finished(sentences.with_note(text, note) if text else note or "", ending, note, self._said())

    def _said(self) -> tuple[Message, ...]:
        new = tuple(self._messages[self._handed :])
        self._handed = len(self._messages)
        return new
