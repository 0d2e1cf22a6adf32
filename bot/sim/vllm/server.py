"""A simulated vLLM server with DiffusionGemma, spoken to over real HTTP: for the demo, the tests and the
bench.

Owns the log of requests and everything a test may do to the server. `bot.http_server.serve` serves
`Endpoint().app`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from starlette.types import ASGIApp

from bot.sim.gemma.tokens import COUNTING_RULE, count_tokens
from bot.sim.vllm.chat_route import Front, Parts
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import Server
from bot.sim.vllm.faults import Fault, Faults, Kind
from bot.sim.vllm.model_faults import slipping
from bot.sim.vllm.other_routes import SideParts
from bot.sim.vllm.profile import Profile, Timing
from bot.sim.vllm.request import Request
from bot.sim.vllm.script import Brain, ChatRequest, Reply, call_text, said, scripted, thought
from bot.sim.vllm.transcription import Sound, Transcribe, by_size
from bot.sim.vllm.typed_reads import Judge, Question, by_words

__all__ = [
    "COUNTING_RULE",
    "Brain",
    "ChatRequest",
    "Endpoint",
    "Profile",
    "Question",
    "Reply",
    "Request",
    "Sound",
    "Timing",
    "call_text",
    "count_tokens",
    "said",
    "scripted",
    "slipping",
    "thought",
]

# The log forgets its older half when it is full, so that a long demo does not grow.
_LOG_SIZE = 4000
PATIENCE = 30.0  # seconds until a wait for what never comes is given up; the machine may be busy


@dataclass(eq=False)
class Endpoint:
    """One server with one model. All state is here, so any number of them may live side by side.

    `context` is max_model_len in tokens; without `api_key` none is wanted; `seed` draws the faults that have
    a rate. `judge` answers typed questions, `transcribe` hears; `requests`, `questions` and `sounds` are the
    logs.
    """

    profile: Profile = field(default_factory=Profile.today)
    timing: Timing = field(default_factory=Timing.instant)
    seats: int = 8
    model: str = "diffusiongemma"
    context: int = 65536
    api_key: str | None = None
    brain: Brain = scripted
    judge: Judge = by_words
    transcribe: Transcribe = by_size
    seed: int = 0

    def __post_init__(self) -> None:
        self.requests: list[Request] = []
        self.questions: list[Question] = []
        self.sounds: list[Sound] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._engine = Engine(self.profile, self.timing, self.seats, self._think, self._changed)
        self._faults = Faults(self.seed)
        server = Server(self.model, self.context, self.profile)
        # Brain, judge and ear are looked up at every request: a test may change those of a running endpoint.
        side = SideParts(
            engine=self._engine,
            server=server,
            judge=lambda question: self.judge(question),
            transcribe=lambda sound: self.transcribe(sound),
            asked=self._asked,
            heard=self._heard,
        )
        self._front = Front(
            Parts(self._engine, self._faults, server, side, self.api_key, self._log, self._changed)
        )
        self.app: ASGIApp = self._front

    @property
    def running(self) -> int:
        """Requests on a seat."""
        return self._engine.seats.running

    @property
    def waiting(self) -> int:
        """Requests without a seat."""
        return self._engine.seats.waiting

    @property
    def peak_running(self) -> int:
        """The most requests that ever ran at once."""
        return self._engine.seats.peak

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of every request the model was asked, cached ones included."""
        return self._engine.metrics.prompt_tokens

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were not computed again."""
        return self._engine.metrics.cached_tokens

    @property
    def generated_tokens(self) -> int:
        """Tokens given out, end tokens included."""
        return self._engine.metrics.generated_tokens

    def fault(
        self,
        kind: Kind,
        *,
        times: int | None = 1,
        after_canvases: int = 0,
        seconds: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """Let a fault happen to the next `times` completions (None: to all), or to a share `rate` of them.

        Kinds: busy, unauthorized, crash, reset, error_line, silent, slow, no_usage. Raises ValueError for
        others.
        """
        self._faults.add(Fault(kind, times, after_canvases, seconds, rate))

    def heal(self) -> None:
        """No more faults, the door is open, and a dead engine starts again with an empty cache."""
        self._faults.clear()
        self._front.loading_until = self._front.refusing_until = 0.0
        if self._engine.died_at is not None:
            self._engine.revive()

    def loading(self, seconds: float) -> None:
        """Answer everything with 503 for so long, as a proxy does in front of a server that loads its model."""
        self._front.loading_until = monotonic() + seconds

    def refuse(self, seconds: float) -> None:
        """Cut every connection at once for so long. (For a port nobody listens on, stop serving the app.)"""
        self._front.refusing_until = monotonic() + seconds

    def hold(self) -> None:
        """No canvas is finished from now on, until `release`; needs a running loop."""
        self._engine.hold()

    def release(self) -> None:
        """Go on after `hold`."""
        self._engine.release()

    def until(self, predicate: Callable[[], bool], timeout: float = PATIENCE) -> Awaitable[None]:
        """Wait until `predicate()` is true, asked again whenever a count or the log changes; else
        TimeoutError.
        """
        return asyncio.wait_for(self._until(predicate), timeout)

    async def _until(self, predicate: Callable[[], bool]) -> None:
        if predicate():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (predicate, done)
        self._waiters.append(waiter)
        try:
            await done
        finally:
            self._waiters.remove(waiter)

    def _changed(self) -> None:
        for predicate, done in self._waiters:
            if not done.done() and predicate():
                done.set_result(None)

    def _log(self, request: Request) -> None:
        if len(self.requests) >= _LOG_SIZE:
            del self.requests[: _LOG_SIZE // 2]
        self.requests.append(request)
        self._changed()

    def _asked(self, questions: Sequence[Question]) -> None:
        self.questions = [*self.questions, *questions][-_LOG_SIZE:]
        self._changed()

    def _heard(self, sound: Sound) -> None:
        self.sounds = [*self.sounds, sound][-_LOG_SIZE:]
        self._changed()

    def _think(self, request: ChatRequest) -> str | Reply:
        return self.brain(request)
