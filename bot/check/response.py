"""Assembles a response from the JSON that an endpoint sends, chunk by chunk or whole. Pure.

It keeps what the gateway would not: when each block arrived and what was counted by then.
"""

from collections.abc import Mapping
from typing import Any

from bot.agent.sanitize import to_sendable
from bot.check.observations import ProbeResponse, StreamBlock
from bot.domain import ToolCall
from bot.llm.stream import parse_count

MAX_SHOWN_CHARACTERS = 160  # of the endpoint's own message


class ResponseAccumulator:
    """One response as it arrives; `sent_at` is when its request was sent."""

    def __init__(self, sent_at: float) -> None:
        self._sent_at = sent_at
        self._text = ""
        self._reasoning = ""
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Mapping[str, Any] | None = None
        self._server: Mapping[str, Any] | None = None
        self._blocks: list[StreamBlock] = []
        self.finish: str | None = None

    @property
    def block_count(self) -> int:
        return len(self._blocks)

    def add_chunk(self, chunk: Any, now: float) -> None:
        """Add a chunk, or the body of a whole reply; raises ValueError for anything else."""
        try:
            self._add_chunk(chunk, now)
        except (AttributeError, TypeError) as error:
            raise ValueError("no chunk of a reply") from error

    def build_response(self, status: int, now: float) -> ProbeResponse:
        """What has arrived so far."""
        calls = (
            ToolCall(call["id"], call["name"], call["arguments"]) for _, call in sorted(self._calls.items())
        )
        return ProbeResponse(
            status,
            text=to_sendable(self._text),
            reasoning=to_sendable(self._reasoning),
            calls=tuple(calls),
            finish=self.finish,
            usage=self._usage,
            server=self._server,
            blocks=tuple(self._blocks),
            sent_at=self._sent_at,
            seconds=now - self._sent_at,
        )

    def _add_chunk(self, chunk: Any, now: float) -> None:
        usage = chunk.get("usage")
        metrics = chunk.get("metrics")
        choices = chunk.get("choices") or ()
        is_whole = any("message" in choice for choice in choices)
        if isinstance(metrics, Mapping):
            self._server = metrics
        is_end = any(choice.get("finish_reason") for choice in choices)
        if isinstance(usage, Mapping) and (is_whole or is_end or not choices):
            self._usage = usage
        running_count = None
        if not is_whole:
            running_count = parse_count(usage, "completion_tokens")
        for choice in choices:
            finish = choice.get("finish_reason")
            if isinstance(finish, str):
                self.finish = to_sendable(finish)
            if self._append_message(choice.get("message") or choice.get("delta") or {}):
                self._blocks.append(StreamBlock(now - self._sent_at, running_count))

    def _append_message(self, message: Mapping[str, Any]) -> bool:
        calls = message.get("tool_calls") or ()
        self._text += message.get("content") or ""
        self._reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
        for position, part in enumerate(calls):
            index = part.get("index", position)
            call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
            function = part.get("function") or {}
            call["id"] = call["id"] or part.get("id") or ""
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""
        return bool(calls or any(message.get(key) for key in ("content", "reasoning", "reasoning_content")))


def parse_error_message(body: object, key: str | None = None) -> str:
    """The message of an error body in one line, with the key hidden in case it is repeated."""
    message = body
    if isinstance(message, Mapping):
        message = message.get("error", message)
    if isinstance(message, Mapping):
        message = message.get("message", message)
    text = " ".join(to_sendable(str(message)).split("'input'")[0].split())
    if key:
        text = text.replace(key, "[hidden]")
    return text[:MAX_SHOWN_CHARACTERS]
