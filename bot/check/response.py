"""Puts an answer together from the JSON an endpoint sends, chunk by chunk or whole, keeping what the gateway
would not: when each block came and what was counted by then. Pure.
"""

from collections.abc import Mapping
from typing import Any

from bot.agent.sanitize import to_sendable
from bot.check.observations import ProbeResponse, StreamBlock, parse_count
from bot.domain import ToolCall

MAX_SHOWN_CHARACTERS = 160  # characters of the endpoint's own words


class ResponseAccumulator:
    """One answer as it comes in; `began` is when its request left."""

    def __init__(self, began: float) -> None:
        self._began = began
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
        """Take a chunk in, or the body of a whole reply; raises ValueError for anything else."""
        try:
            self._add_chunk(chunk, now)
        except (AttributeError, TypeError) as error:
            raise ValueError("no chunk of a reply") from error

    def build_response(self, status: int, now: float) -> ProbeResponse:
        """What has come so far."""
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
            began=self._began,
            seconds=now - self._began,
        )

    def _add_chunk(self, chunk: Any, now: float) -> None:
        usage = chunk.get("usage")
        metrics = chunk.get("metrics")
        choices = chunk.get("choices") or ()
        whole = any("message" in choice for choice in choices)
        if isinstance(metrics, Mapping):
            self._server = metrics
        if isinstance(usage, Mapping) and (whole or not choices):
            self._usage = usage
        for choice in choices:
            finish = choice.get("finish_reason")
            if isinstance(finish, str):
                self.finish = to_sendable(finish)
            else:
                self.finish = self.finish
            if self._append_message(choice.get("message") or choice.get("delta") or {}):
                self._blocks.append(
                    StreamBlock(now - self._began, None if whole else parse_count(usage, "completion_tokens"))
                )

    def _append_message(self, message: Mapping[str, Any]) -> bool:
        calls = message.get("tool_calls") or ()
        self._text += message.get("content") or ""
        self._reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
        for place, piece in enumerate(calls):
            call = self._calls.setdefault(piece.get("index", place), {"id": "", "name": "", "arguments": ""})
            function = piece.get("function") or {}
            call["id"] = call["id"] or piece.get("id") or ""
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""
        return bool(calls or any(message.get(key) for key in ("content", "reasoning", "reasoning_content")))


def parse_error_message(body: object, key: str | None = None) -> str:
    """What an error body says, in one line; the key is hidden should it be repeated."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    told = error.get("message", error) if isinstance(error, Mapping) else error
    text = " ".join(to_sendable(str(told)).split("'input'")[0].split())
    return (text.replace(key, "[hidden]") if key else text)[:MAX_SHOWN_CHARACTERS]
