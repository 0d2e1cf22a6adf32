"""A request on its way through the simulated endpoint, and what its log keeps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.sim.vllm.faults import EndpointFault
from bot.sim.vllm.output import ModelOutput
from bot.sim.vllm.script import ChatRequest

Json = dict[str, Any]


@dataclass(slots=True)
class RequestRecord:
    """One request of the log. Times are `time.monotonic()`; None means that it did not come to that."""

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
    fault_kind: str | None = None

    @property
    def seat_wait_seconds(self) -> float | None:
        """Seconds until a seat was free."""
        if self.seated_at is None:
            return None
        return self.seated_at - self.received_at


@dataclass(slots=True)
class EngineJob:
    """What the engine works on: the prompt in blocks of tokens, the names of its pictures; `output` is there
    once the model has been asked.
    """

    log: RequestRecord
    chat: ChatRequest
    blocks: Sequence[str]
    fault: EndpointFault | None = None
    priority: int = 0
    image_digests: Sequence[str] = ()
    output: ModelOutput | None = None


@dataclass(frozen=True, slots=True)
class Canvas:
    """One canvas: its text, how many tokens the reply has up to its end, and whether it is the last."""

    text: str
    end_token: int
    is_last: bool
