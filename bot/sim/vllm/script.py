"""What stands in for the model: the request that a brain receives, and how it writes thoughts and calls.

Pure.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

_QUOTE = '<|"|>'


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The request to the model: the messages and tools as sent, and the rendered prompt it really sees.

    `is_continuation`: the last message is left open, and the model continues in the middle of it.
    """

    messages: Sequence[Json]
    tools: Sequence[Json]
    thinking: bool
    prompt: str
    max_tokens: int
    body: dict[str, Any]
    is_continuation: bool = False

    @property
    def open_text(self) -> str:
        """The text of the message left open, as the prompt has it: without blanks around it."""
        if self.is_continuation:
            return message_text(self.messages[-1]).strip()
        return ""

    @property
    def inside_thought(self) -> bool:
        """Whether the prompt ends in an open thought channel.

        It does after a tool result with thinking on.
        """
        return self.prompt.endswith("<|channel>thought\n")

    @property
    def user_texts(self) -> Sequence[str]:
        """The texts of the user messages since the last answer, oldest first."""
        texts: list[str] = []
        for message in reversed(self.messages):
            if message["role"] == "user":
                texts.append(message_text(message))
            elif texts:
                break
        return texts[::-1]

    @property
    def round_messages(self) -> Sequence[Json]:
        """The messages since the last user message: calls and their results."""
        last = max((n for n, message in enumerate(self.messages) if message["role"] == "user"), default=-1)
        return self.messages[last + 1 :]

    @property
    def step(self) -> int:
        """The number of rounds of tool calls since the last user message."""
        return sum(bool(message.get("tool_calls")) for message in self.round_messages)


Brain = Callable[[ChatRequest], str]
"""What the model writes, as raw Gemma text."""


def message_text(message: Json) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def format_tool_call(name: str, arguments: Json) -> str:
    """A tool call as the model writes it, keys in the order given."""
    return f"<|tool_call>call:{name}{{{format_arguments(arguments)}}}<tool_call|>"


def format_arguments(arguments: Json) -> str:
    """The arguments of a call as the model writes them."""
    return ",".join(f"{key}:{_format_argument(value)}" for key, value in arguments.items())


def format_thought(text: str, request: ChatRequest) -> str:
    """A thought as the model writes it, without the opener where the prompt has opened the channel."""
    return ("" if request.inside_thought else "<|channel>thought\n") + f"{text}\n<channel|>"


def _format_argument(value: object) -> str:
    if isinstance(value, str):
        return f"{_QUOTE}{value}{_QUOTE}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_format_argument(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_format_argument(item) for item in value) + "]"
    return json.dumps(value)
