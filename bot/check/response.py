"""Assembles a response from the JSON that an endpoint sends, chunk by chunk or whole. Pure.

It keeps what the gateway would not: what was counted by each block.
"""

from collections.abc import Mapping
from typing import Any

from bot.agent.sanitize import to_sendable
from bot.check.observations import ProbeResponse, StreamBlock
from bot.llm.stream import Clock, StreamAccumulator, parse_count

MAX_SHOWN_CHARACTERS = 160  # of the endpoint's own message


class ResponseAccumulator:
    """One response as it arrives; its request is sent now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent_at = clock()
        self._stream = StreamAccumulator(clock)
        self.blocks: list[StreamBlock] = []

    def add_chunk(self, chunk: Any) -> None:
        """Add a chunk, or the body of a whole reply; raises ValueError for anything else."""
        self._stream.add_chunk(chunk)
        if self._stream.block_count > len(self.blocks):
            tokens = parse_count(chunk.get("usage"), "completion_tokens")
            self.blocks.append(StreamBlock(self._clock() - self._sent_at, tokens))

    def build_response(self) -> ProbeResponse:
        """What has arrived so far."""
        reply = self._stream.build_reply()
        return ProbeResponse(200, reply=reply, blocks=tuple(self.blocks), sent_at=self._sent_at)


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
