"""A request on its way through the simulated endpoint, and its record in the log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.vllm.output import ModelOutput
from bot.sim.vllm.script import ChatRequest

Json = dict[str, Any]


@dataclass(slots=True)
class RequestRecord:
    """One request of the log. Times are `time.monotonic()`; None: it did not get that far."""

    body: Json
    headers: dict[str, str]
    received_at: float
    prompt: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    created_tokens: int = 0
    completion_tokens: int = 0
    canvases: int = 0
    thinking: bool = False
    status: int | None = None
    finish_reason: str | None = None
    seated_at: float | None = None
    first_canvas_at: float | None = None
    finished_at: float | None = None
    cancelled: bool = False

    @property
    def seat_wait_seconds(self) -> float | None:
        """Seconds until a seat was free."""
        if self.seated_at is None:
            return None
        return self.seated_at - self.received_at


@dataclass(slots=True)
class EngineJob:
    """A job of the engine: the prompt in blocks of tokens, and the digests of its pictures.

    `output` is set once the model has been called.
    """

    log: RequestRecord
    chat: ChatRequest
    blocks: Sequence[str]
    priority: int = 0
    image_digests: Sequence[str] = ()
    output: ModelOutput | None = None


@dataclass(frozen=True, slots=True)
class Canvas:
    """One canvas: its text, and whether it is the last."""

    text: str
    is_last: bool
