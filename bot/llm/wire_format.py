"""OpenAI's wire format: messages and tools as the endpoint's JSON. Pure.

The same messages and tools are the same bytes each time: the endpoint's prefix cache depends on it.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from bot.domain import Image, Message, ToolCall
from tools.safety.control_tokens import break_control_tokens


def write_tools(definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The definitions of tools (name, description, parameters) as functions that may be called."""
    return [{"type": "function", "function": definition} for definition in definitions]


def write_messages(messages: Iterable[Message], reasoning_field: str = "reasoning") -> list[dict[str, Any]]:
    """The messages as the endpoint's JSON; an empty text is sent only where there is nothing else to send."""
    return [_write_message(message, reasoning_field) for message in messages]


def _write_message(message: Message, reasoning_field: str) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": _build_content(message)}
    if message.calls:
        calls = [_write_call(call) for call in message.calls]
        body: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
    else:
        body = {"role": message.role, "content": _build_content(message)}
    if message.reasoning is not None:
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
