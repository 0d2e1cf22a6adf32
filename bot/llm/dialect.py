"""Dialects of the protocol: renders a request with the fields that an endpoint understands. Pure.

The same messages and tools are the same bytes each time: the endpoint's prefix cache depends on it.
vLLM understands more than the common protocol; a hosted model gets the standard fields alone. What other
servers understand was read in their sources and never tried: bot/docs/servers.md.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bot.domain import Image, Message, ModelRequest, ToolCall
from tools.safety.control_tokens import break_control_tokens

# Ends a reply that repeats itself for a whole canvas; a pattern shorter than 64 tokens is found as several of
# it.
REPETITION: Final[Mapping[str, int]] = {"min_pattern_size": 64, "max_pattern_size": 128, "min_count": 4}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the endpoint understands beyond the common protocol.

    server: what people call it.
    thinking: the request switches thinking.
    continuation: a reply may continue the model's last message in its middle.
    running_usage: chunks carry the usage so far.
    priority: the request carries its priority.
    repetition: the server ends a reply that repeats itself.
    sessions: a header says which requests belong to one conversation.
    has_thinking_field: a field of the request switches thinking, beside the template's argument.
    reasoning_field: under which name a message carries what was thought; None: it carries none.
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
    reasoning_field: str | None = "reasoning"
    canvas_limits: Mapping[str, int] = field(default_factory=dict)

    def build_body(self, model: str, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
        """The JSON body; its prompt is the same bytes for the same messages and tools."""
        body: dict[str, Any] = {
            "model": model,
            "messages": write_messages(request.messages, self.reasoning_field),
            "max_tokens": request.max_tokens,
            "stream": streamed,
        }
        if streamed:
            body["stream_options"] = {"include_usage": True}
            if self.running_usage:
                body["stream_options"]["continuous_usage_stats"] = True
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
PLAIN: Final = Dialect("a hosted model", reasoning_field=None)
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


def write_tools(definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The definitions of tools (name, description, parameters) as functions that may be called."""
    return [{"type": "function", "function": definition} for definition in definitions]


def write_messages(
    messages: Iterable[Message], reasoning_field: str | None = "reasoning"
) -> list[dict[str, Any]]:
    """The messages as the endpoint's JSON; an empty text is sent only where there is nothing else to send."""
    return [_write_message(message, reasoning_field) for message in messages]


def _write_message(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": _build_content(message)}
    if message.calls:
        calls = [_write_call(call) for call in message.calls]
        body: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
    else:
        body = {"role": message.role, "content": _build_content(message)}
    if reasoning_field is not None and message.reasoning is not None:
        body[reasoning_field] = break_control_tokens(message.reasoning)
    return body


def _write_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": break_control_tokens(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _build_content(message: Message) -> str | list[dict[str, Any]]:
    """The text, or the images and one part of text: several would be joined without a separator."""
    if not message.images:
        return message.text
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": _to_data_url(image)}} for image in message.images
    ]
    if message.text:
        parts.append({"type": "text", "text": message.text})
    return parts


def _to_data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"
