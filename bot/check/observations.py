"""What a probe saw of an endpoint, as frozen values without any judgement.

None is always "not seen"; `Seen.why` says why. Times are seconds on a steady clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bot.domain import CANVAS, ToolCall

Part = Literal[
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
Shape = Literal["off", "on", "default", "history", "loop"]

THINKING: Final[tuple[Part, ...]] = (
    "thought",
    "tools, thinking",
    "tools, thinking, whole",
    "results",
    "results, whole",
)
NOT_THINKING: Final[tuple[Part, ...]] = ("plain", "counting", "tools", "tools, whole")
WITH_TOOLS: Final[tuple[Part, ...]] = ("tools", "tools, whole", "tools, thinking", "tools, thinking, whole")


@dataclass(frozen=True, slots=True)
class Route:
    """The answer of a plain route; `body` is its JSON object, empty if it is none."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Block:
    """A chunk that carried something of the reply: when after the request, and the server's running count, if
    any.
    """

    after: float
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one model call, streamed or whole. `words` are those of a refusal."""

    status: int
    words: str = ""
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    server: Mapping[str, Any] | None = None
    blocks: tuple[Block, ...] = ()
    began: float = 0.0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def tokens(self) -> int | None:
        """Output tokens, as the server counts them."""
        return count(self.usage, "completion_tokens")

    @property
    def prompt(self) -> int | None:
        return count(self.usage, "prompt_tokens")

    @property
    def cached(self) -> int | None:
        return count((self.usage or {}).get("prompt_tokens_details"), "cached_tokens")

    @property
    def thought_tokens(self) -> int | None:
        return count((self.usage or {}).get("completion_tokens_details"), "reasoning_tokens")

    @property
    def first_block(self) -> float | None:
        """When the first block came, on the probe's clock."""
        if self.blocks:
            return self.began + self.blocks[0].after
        return None

    @property
    def queued(self) -> float | None:
        """Seconds without a seat, as the server tells."""
        waited = (self.server or {}).get("queue_time_ms")
        if isinstance(waited, int | float):
            return waited / 1000
        return None


@dataclass(frozen=True, slots=True)
class Gauges:
    """What runs and waits at the endpoint at a moment, and its diffusion counters where it has them."""

    running: int
    waiting: int
    steps: int | None = None
    committed: int | None = None

    def steps_since(self, before: "Gauges") -> float | None:
        """Denoising steps a canvas since then, whoever asked, without the commit; None where it does not
        show.
        """
        if None in (self.steps, self.committed, before.steps, before.committed):
            return None
        canvases = ((self.committed or 0) - (before.committed or 0)) / CANVAS
        if canvases >= 1:
            return ((self.steps or 0) - (before.steps or 0)) / canvases - 1
        return None


@dataclass(frozen=True, slots=True)
class Crowd:
    """Several calls at once, and an urgent one sent while others waited. `looks` were taken while they ran."""

    before: Gauges | None
    calls: tuple[Answer, ...]
    looks: tuple[Gauges, ...] = ()
    urgent: Answer | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """A call left in the middle of its reply, and what ran in the moments after; `over`: it had ended by
    itself.

    `pace` is how long its first block took, `watched` how long was looked after it.
    """

    before: Gauges | None
    looks: tuple[Gauges, ...] = ()
    over: bool = False
    pace: float = 0.0
    watched: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All that was seen. `needs_tokens` and `needs_seats` are what the gateway is set to.

    `stopped` says why the probe did not come to its end; `gone`: because the endpoint went away.
    `refuses_ours` are the words by which vLLM's own fields were refused: the rest was asked in the common
    protocol.
    """

    url: str
    has_key: bool = False
    wanted_model: str | None = None
    needs_tokens: int | None = None
    needs_seats: int | None = None
    stopped: str | None = None
    gone: bool = False
    lost: Mapping[str, str] = field(default_factory=dict)
    calls: int = 0
    seconds: float = 0.0
    version: Route | None = None
    models: Route | None = None
    keyless: Route | None = None
    templates: Mapping[Shape, Route] = field(default_factory=dict)
    answers: Mapping[Part, Answer] = field(default_factory=dict)
    refuses_ours: str | None = None
    before: Gauges | None = None
    crowd: Crowd | None = None
    abort: Abort | None = None
    read: Route | None = None

    def why(self, step: str) -> str:
        """Why nothing is known of a step."""
        return self.lost.get(step) or self.stopped or "not asked"

    def good(self, *parts: Part) -> tuple[Answer, ...]:
        """Those of the answers that came and were no refusals, in this order."""
        return tuple(answer for part in parts if (answer := self.answers.get(part)) is not None and answer.ok)


def count(counts: object, name: str) -> int | None:
    """A count of this name in what the endpoint sent; None for all that is none."""
    value = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
