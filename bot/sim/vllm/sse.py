"""The JSON and the event stream of a chat completion, every null included.

Pure: values in, dictionaries and lines out. Knows the wire format of vLLM and nothing of how a reply is
produced.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.gemma.parser import Delta, ParsedReply, ToolCallDelta
from bot.sim.vllm.profile import Profile

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True)
class SimUsage:
    """The server's count of one request, in tokens."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    created_tokens: int
    reasoning_tokens: int

    def to_running_json(self, profile: Profile, completion_so_far: int, reasoning_so_far: int) -> Json:
        """The usage of a chunk during the stream."""
        counts = {"prompt_tokens": self.prompt_tokens, "total_tokens": self.prompt_tokens + completion_so_far}
        if profile.counts_reasoning:
            details = {"completion_tokens_details": {"reasoning_tokens": reasoning_so_far}}
        else:
            details = {}
        return {**counts, "completion_tokens": completion_so_far, **details}

    def to_final_json(self, profile: Profile, *, streamed: bool) -> Json:
        """The usage at the end; only an answer that is not streamed has the nulls."""
        usage = self.to_running_json(profile, self.completion_tokens, self.reasoning_tokens)
        details: Json | None = None
        if profile.prompt_details:
            details = {"cached_tokens": self.cached_tokens, "created_cache_tokens": self.created_tokens}
            if not streamed:
                details["multimodal_tokens"] = None
        if details is None and streamed:
            return usage
        last = usage.pop("completion_tokens_details", None)
        usage["prompt_tokens_details"] = details
        if last is None:
            return usage
        return {**usage, "completion_tokens_details": last}


@dataclass(frozen=True, slots=True)
class CompletionHead:
    """The fields that every chunk of a reply repeats."""

    id: str
    created: int
    model: str
    fingerprint: str

    def build_chunk(self, choices: Sequence[Json], **fields: object) -> Json:
        """One chunk, with `fields` after the choices."""
        kind = "chat.completion.chunk"
        first = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**first, "choices": choices, **fields}


def new_completion_id(request_id: str | None = None) -> str:
    """The id of a completion: the request's own, or 16 hex digits."""
    return f"chatcmpl-{request_id or secrets.token_hex(8)}"


def format_event(value: Mapping[str, Any]) -> bytes:
    """One event of the stream."""
    return b"data: " + dump_json(value) + b"\n\n"


def dump_json(value: object) -> bytes:
    """Compact JSON, as the server writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def role_choice() -> Json:
    """The choice of the first chunk: the role, without text."""
    return {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }


def middle_choice(delta: Json) -> Json:
    """A choice during the stream."""
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "token_ids": None}


def last_choice(delta: Json, finish_reason: str, stop_reason: int | str | None) -> Json:
    """The choice that ends the stream."""
    reasons = {"finish_reason": finish_reason, "stop_reason": stop_reason}
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        **reasons,
        "token_ids": None,
        "weight_versions": None,
    }


def delta_json(delta: Delta, *, is_last: bool) -> Json:
    """The delta of a chunk.

    A call gets its id with its name. In the last chunk a name never comes without arguments.
    """
    fields: Json = {}
    if delta.content:
        fields["content"] = delta.content
    if delta.reasoning:
        fields["reasoning"] = delta.reasoning
    if delta.calls:
        fields["tool_calls"] = [_tool_call_json(call, is_last=is_last) for call in delta.calls]
    return fields


def _tool_call_json(call: ToolCallDelta, *, is_last: bool) -> Json:
    arguments = "" if call.arguments is None and is_last else call.arguments
    function = {"name": call.name, "arguments": arguments}
    fields = {key: value for key, value in function.items() if value is not None}
    if call.name is None:
        return {"index": call.index, "function": fields}
    return {"id": _new_call_id(), "type": "function", "index": call.index, "function": fields}


def _new_call_id() -> str:
    return f"chatcmpl-tool-{secrets.token_hex(8)}"


def message_json(parsed: ParsedReply, *, requires_tool: bool) -> Json:
    """The message of an answer that is not streamed.

    `requires_tool`: tool_choice names a tool, or requires one.
    """
    message: Json = {
        "role": "assistant",
        "content": "" if requires_tool and parsed.calls else parsed.content or None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if parsed.calls:
        message["tool_calls"] = [
            {"id": _new_call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in parsed.calls
        ]
    return {**message, "reasoning": parsed.reasoning or None}


def completion_json(
    head: CompletionHead, message: Json, finish_reason: str, stop_reason: int | str | None, usage: Json | None
) -> Json:
    """The body of an answer that is not streamed; the caller that measured them adds per-request metrics."""
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": stop_reason,
        "token_ids": None,
        "routed_experts": None,
        "weight_versions": None,
    }
    return {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": head.fingerprint,
        "usage": usage,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
