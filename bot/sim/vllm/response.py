"""Puts canvases into the words of the API for one request: chunks of a stream, or one body.

Pure but for its parser, which remembers what it has seen. Knows the request's options and the server's
profile.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.old_parser import OldStream, old_parse_whole
from bot.sim.gemma.parser import Delta, Parsed, Schemas, Stream, parse_whole, reasoning_flags
from bot.sim.gemma.template import OPEN_THOUGHT
from bot.sim.gemma.tokens import SPELLED
from bot.sim.vllm.profile import Profile
from bot.sim.vllm.request import Canvas, Job, Request
from bot.sim.vllm.sse import (
    Head,
    Usage,
    completion_json,
    delta_json,
    last_choice,
    message_json,
    middle_choice,
    role_choice,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What of a request concerns the form of its answer."""

    streamed: bool
    usage: bool
    running_usage: bool
    reasoning: bool
    parallel: bool
    schemas: Schemas | None
    named: bool
    chosen: bool

    @classmethod
    def of(cls, body: Json, profile: Profile) -> "Options":
        """Read them from a checked body."""
        stream = body.get("stream_options") or {}
        asked = bool(stream.get("include_usage"))
        choice = body.get("tool_choice")
        tools = None if choice == "none" else body.get("tools")
        return cls(
            streamed=bool(body.get("stream")),
            usage=asked or profile.force_usage,
            running_usage=profile.force_usage or (asked and bool(stream.get("continuous_usage_stats"))),
            reasoning=body.get("include_reasoning") is not False,
            parallel=body.get("parallel_tool_calls") is not False,
            schemas={t["function"]["name"]: t["function"].get("parameters") or {} for t in tools}
            if tools
            else None,
            named=isinstance(choice, dict),
            chosen=isinstance(choice, dict) or choice == "required",
        )


class Answer:
    """One reply on its way out. Ask for `chunks` canvas by canvas and then for the `tail`, or once for the
    `whole`.
    """

    def __init__(self, job: Job, head: Head, options: Options, profile: Profile) -> None:
        self._job = job
        self._head = head
        self._options = options
        self._profile = profile
        make = OldStream if profile.old_parser else Stream
        self._inside_thought = job.chat.inside_thought and profile.reasoning_parser
        self._parser = make(options.schemas, inside_thought=self._inside_thought)
        self._flags: list[bool] | None = None
        self._begun = False
        # A stream whose usage is lost has none at all, neither running nor at its end.
        self._usage = not (job.fault and job.fault.kind == "no_usage")

    def chunks(self, canvas: Canvas) -> list[Json]:
        """The chunks one canvas makes: the role in front of the first, none for a canvas without anything to
        say.
        """
        chunks = [] if self._begun else [self._role()]
        self._begun = True
        delta = self._parser.feed(self._parsed(canvas.text))
        if canvas.last:
            delta.calls.extend(self._parser.finish().calls)
            return [*chunks, self._last(self._wanted(delta))]
        delta = self._wanted(delta)
        if not delta.empty:
            choice = middle_choice(delta_json(delta, last=False))
            chunks.append(self._head.chunk([choice], **self._running(), kv_transfer_params=None))
        return chunks

    def tail(self) -> list[Json]:
        """The usage chunk, if it is wanted."""
        if not self._options.usage or not self._usage:
            return []
        usage = self._final().final(self._profile, streamed=True)
        if self._profile.request_metrics:
            more = {"metrics": timings(self._job.log)}
        else:
            more = {}
        return [self._head.chunk([], usage=usage, system_fingerprint=self._head.fingerprint, **more)]

    def whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        parse = old_parse_whole if self._profile.old_parser else parse_whole
        parsed = parse(text, self._options.schemas)
        if not self._profile.reasoning_parser and parsed.reasoning:
            parsed = Parsed("", f"{OPEN_THOUGHT}{parsed.reasoning}\n<channel|>{parsed.content}", parsed.calls)
        calls = parsed.calls if self._options.parallel else parsed.calls[:1]
        parsed = Parsed(parsed.reasoning if self._options.reasoning else "", parsed.content, calls)
        finish = self._finish(called=bool(calls))
        message = message_json(parsed, chosen=self._options.chosen)
        assert self._job.output
        if self._profile.whole_usage:
            usage = self._final().final(self._profile, streamed=False)
        else:
            usage = None
        body = completion_json(self._head, message, finish, self._job.output.stop_reason, usage)
        if self._profile.request_metrics:
            body["metrics"] = {**timings(self._job.log), "speculative_decoding": None}
        return body

    def _parsed(self, text: str) -> str:
        """What the parser gets to see: without one for thoughts, their markup is text like any other."""
        if self._profile.reasoning_parser:
            return text
        return re.sub(r"<\|channel>|<channel\|>", lambda token: SPELLED + token[0], text)

    def _wanted(self, delta: Delta) -> Delta:
        if self._options.parallel:
            calls = delta.calls
        else:
            calls = [call for call in delta.calls if call.index == 0]
        return Delta(delta.reasoning if self._options.reasoning else "", delta.content, calls)

    def _role(self) -> Json:
        usage = self._running(nothing_yet=True)
        return self._head.chunk([role_choice()], **usage, prompt_token_ids=None, prompt_text=None)

    def _last(self, delta: Delta) -> Json:
        assert self._job.output
        finish = self._finish(called=bool(self._parser.called))
        choice = last_choice(delta_json(delta, last=True), finish, self._job.output.stop_reason)
        if self._options.usage:
            print_here = {}
        else:
            print_here = {"system_fingerprint": self._head.fingerprint}
        return self._head.chunk([choice], **self._running(), **print_here, kv_transfer_params=None)

    def _finish(self, *, called: bool) -> str:
        assert self._job.output
        finish = self._job.output.finish
        hides_the_cut = self._profile.old_parser and not self._options.streamed and finish == "length"
        if called and not self._options.named and (finish == "stop" or hides_the_cut):
            finish = "tool_calls"
        self._job.log.finish_reason = finish
        return finish

    def _running(self, *, nothing_yet: bool = False) -> Json:
        if not self._options.running_usage or not self._usage:
            return {}
        completion = 0 if nothing_yet else self._job.log.completion_tokens
        return {"usage": self._final().running(self._profile, completion, self._reasoning(completion))}

    def _final(self) -> Usage:
        log = self._job.log
        reasoning = self._reasoning(log.completion_tokens)
        return Usage(
            log.prompt_tokens, log.completion_tokens, log.cached_tokens, log.created_tokens, reasoning
        )

    def _reasoning(self, until: int) -> int:
        if self._flags is None:
            assert self._job.output
            inside = self._options.streamed and self._inside_thought
            self._flags = reasoning_flags(self._job.output.tokens, inside_thought=inside)
        return sum(self._flags[:until])


def timings(log: Request) -> Json:
    """The server's own times of one request; the first token's time starts at the seat."""
    received, seated = log.received, log.seated or log.received
    first = log.first or seated
    end = log.finished or first
    spent = (end - seated) or 1e-9
    return {
        "time_to_first_token_ms": (first - seated) * 1000,
        "generation_time_ms": (end - first) * 1000,
        "queue_time_ms": (seated - received) * 1000,
        "mean_itl_ms": (end - first) * 1000 / max(1, log.completion_tokens - 1),
        "tokens_per_second": log.completion_tokens / spent,
    }
