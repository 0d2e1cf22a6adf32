"""Dialects of the protocol: renders a request with the fields that an endpoint understands. Pure.

vLLM understands more than the common protocol; a hosted model gets the standard fields alone. What other
servers understand was read in their sources and never tried: bot/docs/servers.md.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bot.domain import ModelRequest
from bot.llm.wire_format import write_messages, write_tools

# Ends a reply that repeats itself for a whole canvas; a pattern shorter than 64 tokens is found as several of
# it.
REPETITION: Final[Mapping[str, int]] = {"min_pattern_size": 64, "max_pattern_size": 128, "min_count": 4}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the endpoint understands beyond the common protocol.

    server: what people call it.
    thinking: the request switches thinking, and reasoning may be sent back.
    continuation: a reply may continue the model's last message in its middle.
    running_usage: chunks carry the usage so far.
    priority: the request carries its priority.
    repetition: the server ends a reply that repeats itself.
    sessions: a header says which requests belong to one conversation.
    has_thinking_field: a field of the request switches thinking, beside the template's argument.
    reasoning_field: under which name a message carries what was thought.
    canvas_limits: vLLM's own arguments of each request that narrow its canvases.
    """

    server: str
    thinking: bool = False
    continuation: bool = False
    running_usage: bool = False
    priority: bool = False
    repetition: bool = False
    sessions: bool = False
    has_thinking_field: bool = False
    reasoning_field: str = "reasoning"
    canvas_limits: Mapping[str, int] = field(default_factory=dict)

    def build_body(self, model: str, request: ModelRequest) -> dict[str, Any]:
        """The JSON body; its prompt is the same bytes for the same messages and tools."""
        messages = request.messages
        if not self.thinking:
            messages = tuple(replace(message, reasoning=None) for message in messages)
        stream_options = {"include_usage": True}
        if self.running_usage:
            stream_options["continuous_usage_stats"] = True
        body: dict[str, Any] = {
            "model": model,
            "messages": write_messages(messages, self.reasoning_field),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": stream_options,
        }
        if request.tools:
            body |= {"tools": write_tools(request.tools), "tool_choice": request.tool_choice}
        if self.thinking:
            body["chat_template_kwargs"] = {"enable_thinking": request.thinking}
        if self.has_thinking_field:
            body["enable_thinking"] = request.thinking
        if self.continuation and request.continue_final_message:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if self.repetition:
            body["repetition_detection"] = REPETITION
        if self.priority and request.priority:
            body["priority"] = request.priority
        if self.canvas_limits:
            body["vllm_xargs"] = self.canvas_limits
        return body

    def build_headers(self, request: ModelRequest) -> dict[str, str]:
        """The headers; a conversation is named by a hash."""
        if self.sessions:
            return {"X-Session-ID": _hash_session(request.session)}
        return {}


VLLM: Final = Dialect(
    "vLLM",
    thinking=True,
    continuation=True,
    running_usage=True,
    priority=True,
    repetition=True,
    sessions=True,
)
PLAIN: Final = Dialect("a hosted model")
LLAMA_CPP: Final = Dialect("llama.cpp", thinking=True, reasoning_field="reasoning_content")
SGLANG: Final = replace(LLAMA_CPP, server="SGLang")  # its priorities mean the opposite of vLLM's
MLX_VLM: Final = Dialect("mlx-vlm", thinking=True, has_thinking_field=True)
MISTRAL_RS: Final = replace(MLX_VLM, server="mistral.rs")
_BY_OWNER: Final[Mapping[str, Dialect]] = {
    "vllm": VLLM,
    "llamacpp": LLAMA_CPP,
    "sglang": SGLANG,
    "local": MISTRAL_RS,
}
"""By the owner that a server's list of models names."""
_MLX_FIELDS: Final = {"id", "object", "created"}  # mlx-vlm names no owner


def find_dialect(listed: object) -> Dialect | None:
    """The dialect of the server with this list of models; None: the list does not tell."""
    match listed:
        case {"data": [{"owned_by": str(owner)}, *_]}:
            return _BY_OWNER.get(owner)
        case {"data": [{} as row, *_]} if set(row) == _MLX_FIELDS:
            return MLX_VLM
    return None


def _hash_session(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
