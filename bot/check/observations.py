"""What a probe observed of an endpoint, as frozen values without any judgement.

None is always "not observed"; `Observations.unknown_reason` says why. Times are seconds of a monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bot.canvases import CANVAS_TOKENS
from bot.domain import CallTimes, Reply, Usage

CallKind = Literal[
    "plain",
    "counting",
    "tools",
    "tools, whole",
    "thought",
    "tools, thinking",
    "tools, thinking, whole",
    "results",
    "results, whole",
    "picture",
    "temperature",
]
TemplateCase = Literal["off", "on", "default", "history", "loop"]

THINKING_CALLS: Final[tuple[CallKind, ...]] = (
    "thought",
    "tools, thinking",
    "tools, thinking, whole",
    "results",
    "results, whole",
)
NON_THINKING_CALLS: Final[tuple[CallKind, ...]] = ("plain", "counting", "tools", "tools, whole")
CALLS_WITH_TOOLS: Final[tuple[CallKind, ...]] = (
    "tools",
    "tools, whole",
    "tools, thinking",
    "tools, thinking, whole",
)


@dataclass(frozen=True, slots=True)
class RouteResponse:
    """The response of a route other than the chat; `body` is its JSON object, empty if it has none."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """A chunk with a part of the reply: seconds after the request, and the server's running count, if any."""

    after_seconds: float
    tokens: int | None = None


NO_REPLY: Final = Reply("", "", (), None, Usage(), CallTimes(0.0))


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The response to one model call, streamed or whole; `error_message` is that of a refusal."""

    status: int
    error_message: str = ""
    reply: Reply = NO_REPLY
    blocks: tuple[StreamBlock, ...] = ()
    sent_at: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def usage(self) -> Usage:
        """What was counted of it."""
        return self.reply.usage

    @property
    def first_block_at(self) -> float | None:
        """When the first block arrived, on the probe's clock."""
        if self.blocks:
            return self.sent_at + self.blocks[0].after_seconds
        return None

    @property
    def queue_seconds(self) -> float | None:
        """Seconds without a seat, as the server reports them."""
        milliseconds = (self.reply.server_timings or {}).get("queue_time_ms")
        return None if milliseconds is None else milliseconds / 1000


@dataclass(frozen=True, slots=True)
class Gauges:
    """What runs and waits at the endpoint at one moment, and its diffusion counters where it has them."""

    running: int
    waiting: int
    steps: int | None = None
    committed: int | None = None

    def add(self, other: "Gauges") -> "Gauges":
        """Both servers together; a counter that one of them lacks is unknown."""
        return Gauges(
            self.running + other.running,
            self.waiting + other.waiting,
            None if self.steps is None or other.steps is None else self.steps + other.steps,
            None if self.committed is None or other.committed is None else self.committed + other.committed,
        )

    def steps_per_canvas_since(self, earlier: "Gauges") -> float | None:
        """Denoising steps per canvas since then, for all clients, without the commit; None if unknown."""
        if self.steps is None or self.committed is None:
            return None
        if earlier.steps is None or earlier.committed is None:
            return None
        canvases = (self.committed - earlier.committed) / CANVAS_TOKENS
        if canvases < 1:
            return None
        return (self.steps - earlier.steps) / canvases - 1


@dataclass(frozen=True, slots=True)
class LoadProbeResult:
    """Several calls at once, and an urgent one sent while others waited.

    `gauge_samples` were read while they ran.
    """

    before: Gauges | None
    calls: tuple[ProbeResponse, ...]
    gauge_samples: tuple[Gauges, ...] = ()
    urgent: ProbeResponse | None = None


@dataclass(frozen=True, slots=True)
class AbortProbeResult:
    """A call aborted in the middle of its reply, and what ran in the moments after.

    `has_ended`: it ended by itself before. `watched_seconds`: how long gauges were read after the abort.
    """

    before: Gauges | None
    gauge_samples: tuple[Gauges, ...] = ()
    has_ended: bool = False
    first_block_seconds: float = 0.0
    watched_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Observations:
    """All that was observed. `needs_tokens`, `needs_seats` and `image_tokens` are what the gateway is set to.

    `servers` are those that the settings name behind it, `silent_servers` those of them without gauges.
    `stopped` says why the probe did not finish; `gone`: because the endpoint went away. `lost` has the reason
    of each step that failed. `refuses_ours` is the message with which vLLM's own fields were refused; from
    then on the common protocol was used.
    """

    url: str
    has_key: bool = False
    wanted_model: str | None = None
    needs_tokens: int | None = None
    needs_seats: int | None = None
    servers: tuple[str, ...] = ()
    image_tokens: int | None = None
    stopped: str | None = None
    gone: bool = False
    lost: Mapping[str, str] = field(default_factory=dict)
    calls: int = 0
    seconds: float = 0.0
    version: RouteResponse | None = None
    models: RouteResponse | None = None
    keyless: RouteResponse | None = None
    templates: Mapping[TemplateCase, RouteResponse] = field(default_factory=dict)
    answers: Mapping[CallKind, ProbeResponse] = field(default_factory=dict)
    refuses_ours: str | None = None
    router: RouteResponse | None = None
    silent_servers: tuple[str, ...] = ()
    before: Gauges | None = None
    crowd: LoadProbeResult | None = None
    abort: AbortProbeResult | None = None
    read: RouteResponse | None = None
    read_path: str = ""
    read_seconds: float = 0.0

    def unknown_reason(self, step: str) -> str:
        """Why nothing is known of a step."""
        return self.lost.get(step) or self.stopped or "not asked"

    def ok_responses(self, *kinds: CallKind) -> tuple[ProbeResponse, ...]:
        """The responses of these kinds that arrived and were no refusals, in this order."""
        responses = (self.answers.get(kind) for kind in kinds)
        return tuple(response for response in responses if response is not None and response.ok)
