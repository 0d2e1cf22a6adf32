"""Encodes canvases in the API's format for one request: chunks of a stream, or one body.

Pure but for its parser, which keeps state. Knows the request's options and the server's profile.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.parser import Delta, ParsedReply, Schemas, StreamParser, flag_reasoning_tokens, parse_reply
from bot.sim.gemma.template import OPEN_THOUGHT
from bot.sim.gemma.tokens import SPELLED_OUT_MARK
from bot.sim.vllm.profile import Profile
from bot.sim.vllm.request import Canvas, EngineJob, RequestRecord
from bot.sim.vllm.sse import (
    CompletionHead,
    SimUsage,
    completion_json,
    delta_json,
    last_choice,
    message_json,
    middle_choice,
    role_choice,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """The options of a request that concern the form of its answer."""

    streamed: bool
    include_usage: bool
    include_running_usage: bool
    include_reasoning: bool
    allows_parallel_calls: bool
    schemas: Schemas | None
    names_tool: bool
    requires_tool: bool

    @classmethod
    def from_body(cls, body: Json, profile: Profile) -> "ReplyOptions":
        """Read them from a checked body."""
        stream = body.get("stream_options") or {}
        wants_usage = bool(stream.get("include_usage"))
        choice = body.get("tool_choice")
        tools = None if choice == "none" else body.get("tools")
        return cls(
            streamed=bool(body.get("stream")),
            include_usage=wants_usage or profile.force_usage,
            include_running_usage=profile.force_usage
            or (wants_usage and bool(stream.get("continuous_usage_stats"))),
            include_reasoning=body.get("include_reasoning") is not False,
            allows_parallel_calls=body.get("parallel_tool_calls") is not False,
            schemas={t["function"]["name"]: t["function"].get("parameters") or {} for t in tools}
            if tools
            else None,
            names_tool=isinstance(choice, dict),
            requires_tool=isinstance(choice, dict) or choice == "required",
        )


class CompletionEncoder:
    """One reply to encode: a chunk sequence canvas by canvas and then the tail, or the whole once."""

    parser_class: type[StreamParser] = StreamParser

    def __init__(self, job: EngineJob, head: CompletionHead, options: ReplyOptions, profile: Profile) -> None:
        self.job = job
        self._head = head
        self.options = options
        self.profile = profile
        self._inside_thought = job.chat.inside_thought and profile.reasoning_parser
        self._parser = self.parser_class(options.schemas, inside_thought=self._inside_thought)
        self._reasoning_flags: list[bool] | None = None
        self._has_begun = False

    def encode_canvas(self, canvas: Canvas) -> list[Json]:
        """The chunks of one canvas.

        The role comes before the first; a canvas without visible text has none.
        """
        chunks = [] if self._has_begun else [self._role_chunk()]
        self._has_begun = True
        delta = self._parser.feed(self._mask_thought_markup(canvas.text))
        if canvas.is_last:
            delta.calls.extend(self._parser.finish().calls)
            return [*chunks, self._last_chunk(self._filter_delta(delta))]
        delta = self._filter_delta(delta)
        if not delta.is_empty:
            choice = middle_choice(delta_json(delta, is_last=False))
            chunks.append(self._head.build_chunk([choice], **self._running_usage(), kv_transfer_params=None))
        return chunks

    def encode_tail(self) -> list[Json]:
        """The usage chunk, if it is requested."""
        if not self.options.include_usage:
            return []
        usage = self._total_usage().to_final_json(self.profile, streamed=True)
        more = {}
        if self.profile.request_metrics:
            more = {"metrics": request_timings(self.job.log)}
        return [self._head.build_chunk([], usage=usage, system_fingerprint=self._head.fingerprint, **more)]

    def encode_whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        parsed = parse_reply(text, self.options.schemas)
        if not self.profile.reasoning_parser and parsed.reasoning:
            parsed = ParsedReply(
                "", f"{OPEN_THOUGHT}{parsed.reasoning}\n<channel|>{parsed.content}", parsed.calls
            )
        calls = parsed.calls if self.options.allows_parallel_calls else parsed.calls[:1]
        reasoning = parsed.reasoning if self.options.include_reasoning else ""
        parsed = ParsedReply(reasoning, parsed.content, calls)
        finish = self.find_finish_reason(has_calls=bool(calls))
        message = message_json(parsed, requires_tool=self.options.requires_tool)
        assert self.job.output
        if self.profile.whole_usage:
            usage = self._total_usage().to_final_json(self.profile, streamed=False)
        else:
            usage = None
        body = completion_json(self._head, message, finish, self.job.output.stop_reason, usage)
        if self.profile.request_metrics:
            body["metrics"] = {**request_timings(self.job.log), "speculative_decoding": None}
        return body

    def _mask_thought_markup(self, text: str) -> str:
        """The text for the parser: without a reasoning parser, markup of thoughts is plain text."""
        if self.profile.reasoning_parser:
            return text
        return re.sub(r"<\|channel>|<channel\|>", lambda token: SPELLED_OUT_MARK + token[0], text)

    def _filter_delta(self, delta: Delta) -> Delta:
        calls = delta.calls
        if not self.options.allows_parallel_calls:
            calls = [call for call in calls if call.index == 0]
        reasoning = delta.reasoning if self.options.include_reasoning else ""
        return Delta(reasoning, delta.content, calls)

    def _role_chunk(self) -> Json:
        usage = self._running_usage(is_first_chunk=True)
        return self._head.build_chunk([role_choice()], **usage, prompt_token_ids=None, prompt_text=None)

    def _last_chunk(self, delta: Delta) -> Json:
        assert self.job.output
        finish = self.find_finish_reason(has_calls=bool(self._parser.call_count))
        choice = last_choice(delta_json(delta, is_last=True), finish, self.job.output.stop_reason)
        if self.options.include_usage:
            print_here = {}
        else:
            print_here = {"system_fingerprint": self._head.fingerprint}
        return self._head.build_chunk(
            [choice], **self._running_usage(), **print_here, kv_transfer_params=None
        )

    def find_finish_reason(self, *, has_calls: bool) -> str:
        """Why the reply ended, which is stored in its record, too."""
        assert self.job.output
        finish = self.job.output.finish_reason
        if has_calls and not self.options.names_tool and finish == "stop":
            finish = "tool_calls"
        self.job.log.finish_reason = finish
        return finish

    def _running_usage(self, *, is_first_chunk: bool = False) -> Json:
        if not self.options.include_running_usage:
            return {}
        completion = 0 if is_first_chunk else self.job.log.completion_tokens
        return {
            "usage": self._total_usage().to_running_json(
                self.profile, completion, self._count_reasoning_tokens(completion)
            )
        }

    def _total_usage(self) -> SimUsage:
        log = self.job.log
        reasoning = self._count_reasoning_tokens(log.completion_tokens)
        return SimUsage(
            log.prompt_tokens, log.completion_tokens, log.cached_tokens, log.created_tokens, reasoning
        )

    def _count_reasoning_tokens(self, token_count: int) -> int:
        if self._reasoning_flags is None:
            assert self.job.output
            inside = self.options.streamed and self._inside_thought
            self._reasoning_flags = flag_reasoning_tokens(self.job.output.tokens, inside_thought=inside)
        return sum(self._reasoning_flags[:token_count])


def request_timings(log: RequestRecord) -> Json:
    """The server's own times of one request; the first token's time starts at the seat."""
    received = log.received_at
    seated = log.seated_at or received
    first = log.first_canvas_at or seated
    end = log.finished_at or first
    spent = (end - seated) or 1e-9
    return {
        "time_to_first_token_ms": (first - seated) * 1000,
        "generation_time_ms": (end - first) * 1000,
        "queue_time_ms": (seated - received) * 1000,
        "mean_itl_ms": (end - first) * 1000 / max(1, log.completion_tokens - 1),
        "tokens_per_second": log.completion_tokens / spent,
    }
