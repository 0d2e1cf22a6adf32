"""Puts an answer together from the JSON an endpoint sends, chunk by chunk or whole, keeping what the gateway
would not: when each block came and what was counted by then. Pure.
"""

from collections.abc import Mapping
from typing import Any

from bot.agent.sanitize import sendable
from bot.check.observations import Answer, Block, count
from bot.domain import ToolCall

SHOWN = 160  # characters of the endpoint's own words


class Hearing:
    """One answer as it comes in; `began` is when its request left."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._text = ""
        self._reasoning = ""
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Mapping[str, Any] | None = None
        self._server: Mapping[str, Any] | None = None
        self._blocks: list[Block] = []
        self.finish: str | None = None

    @property
    def blocks(self) -> int:
        return len(self._blocks)

    def take(self, chunk: Any, now: float) -> None:
        """Take a chunk in, or the body of a whole reply; raises ValueError for anything else."""
        try:
            self._take(chunk, now)
        except (AttributeError, TypeError) as error:
            raise ValueError("no chunk of a reply") from error

    def answer(self, status: int, now: float) -> Answer:
        """What has come so far."""
        calls = (
            ToolCall(call["id"], call["name"], call["arguments"]) for _, call in sorted(self._calls.items())
        )
        return Answer(
            status,
            text=sendable(self._text),
            reasoning=sendable(self._reasoning),
            calls=tuple(calls),
            finish=self.finish,
            usage=self._usage,
            server=self._server,
            blocks=tuple(self._blocks),
            began=self._began,
            seconds=now - self._began,
        )

    def _take(self, chunk: Any, now: float) -> None:
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
                self.finish = sendable(finish)
            else:
                self.finish = self.finish
            if self._append(choice.get("message") or choice.get("delta") or {}):
                self._blocks.append(
                    Block(now - self._began, None if whole else count(usage, "completion_tokens"))
                )

    def _append(self, said: Mapping[str, Any]) -> bool:
        calls = said.get("tool_calls") or ()
        self._text += said.get("content") or ""
        self._reasoning += said.get("reasoning") or said.get("reasoning_content") or ""
        for place, piece in enumerate(calls):
            call = self._calls.setdefault(piece.get("index", place), {"id": "", "name": "", "arguments": ""})
            function = piece.get("function") or {}
            call["id"] = call["id"] or piece.get("id") or ""
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""
        return bool(calls or any(said.get(key) for key in ("content", "reasoning", "reasoning_content")))


def words_of(body: object, key: str | None = None) -> str:
    """What an error body says, in one line; the key is hidden should it be repeated."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    told = error.get("message", error) if isinstance(error, Mapping) else error
    text = " ".join(sendable(str(told)).split("'input'")[0].split())
    return (text.replace(key, "[hidden]") if key else text)[:SHOWN]
