"""Dialects of the protocol: renders a request with the fields that an endpoint understands. Pure.

vLLM understands more than the common protocol; a hosted model gets the standard fields alone.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bot.domain import ModelRequest
from bot.llm.wire_format import write_messages, write_tools

# Ends a reply that repeats itself for a whole canvas; a pattern shorter than 64 tokens is found as several of
# it.
REPETITION: Final[Mapping[str, int]] = {"min_pattern_size": 64, "max_pattern_size": 128, "min_count": 4}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the endpoint understands beyond the common protocol.

    thinking: the request switches thinking, and reasoning may be sent back.
    continuation: a reply may continue the model's last message in its middle.
    running_usage: chunks carry the usage so far.
    priority: the request carries its priority.
    repetition: the server ends a reply that repeats itself.
    sessions: a header says which requests belong to one conversation.
    """

    thinking: bool
    continuation: bool
    running_usage: bool
    priority: bool
    repetition: bool
    sessions: bool

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
            "messages": write_messages(messages),
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": stream_options,
        }
        if request.tools:
            body |= {"tools": write_tools(request.tools), "tool_choice": request.tool_choice}
        if self.thinking:
            body["chat_template_kwargs"] = {"enable_thinking": request.thinking}
        if self.continuation and request.continue_final_message:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if self.repetition:
            body["repetition_detection"] = REPETITION
        if self.priority and request.priority:
            body["priority"] = request.priority
        return body

    def build_headers(self, request: ModelRequest) -> dict[str, str]:
        """The headers; a conversation is named by a hash."""
        if self.sessions:
            return {"X-Session-ID": _hash_session(request.session)}
        return {}


VLLM: Final = Dialect(
    thinking=True, continuation=True, running_usage=True, priority=True, repetition=True, sessions=True
)
PLAIN: Final = Dialect(
    thinking=False, continuation=False, running_usage=False, priority=False, repetition=False, sessions=False
)


def _hash_session(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
