"""A simulated vLLM server with DiffusionGemma over real HTTP, for the demo, the tests and the bench.

Owns the log of requests and everything a test may do to the server. `bot.http_server.serve` serves
`SimulatedEndpoint().app`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeVar

from starlette.types import ASGIApp

from bot.sim.gemma.tokens import COUNTING_RULE, count_tokens
from bot.sim.vllm.chat_route import ChatRouteDependencies, EndpointApp
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import ServerInfo
from bot.sim.vllm.faults import EndpointFault, EndpointFaultKind, EndpointFaultQueue
from bot.sim.vllm.model_faults import with_model_faults
from bot.sim.vllm.other_routes import OtherRouteDependencies
from bot.sim.vllm.profile import Profile, Timing
from bot.sim.vllm.request import RequestRecord
from bot.sim.vllm.script import (
    Brain,
    ChatRequest,
    ScriptedReply,
    format_thought,
    format_tool_call,
    reply_with,
    scripted_brain,
)
from bot.sim.vllm.speech import CHIME, SpeechRequest, Synthesizer, chime
from bot.sim.vllm.transcription import AudioUpload, Transcriber, transcribe_by_size
from bot.sim.vllm.typed_reads import Judge, TypedQuestion, judge_by_words

__all__ = [
    "CHIME",
    "COUNTING_RULE",
    "AudioUpload",
    "Brain",
    "ChatRequest",
    "Profile",
    "RequestRecord",
    "ScriptedReply",
    "SimulatedEndpoint",
    "SpeechRequest",
    "Timing",
    "TypedQuestion",
    "count_tokens",
    "format_thought",
    "format_tool_call",
    "reply_with",
    "scripted_brain",
    "with_model_faults",
]

Entry = TypeVar("Entry")

# A full log forgets what is oldest, so that a long demo does not grow.
_MAX_LOG_ENTRIES = 4000
MAX_WAIT_SECONDS = 240.0  # seconds until a wait for what never comes is given up; the machine may be busy


@dataclass(eq=False)
class SimulatedEndpoint:
    """One server with one model. All state is in the object, so any number of them may coexist.

    `context` is max_model_len in tokens; without `api_key` none is required; `seed` draws the faults that
    have a rate. `brain` answers chats, `judge` typed questions; `transcribe` hears, `synthesize` speaks.
    `requests`, `typed_questions`, `audio_uploads` and `speech_requests` are the logs; `app` is served.
    """

    profile: Profile = field(default_factory=Profile.today)
    timing: Timing = field(default_factory=Timing.instant)
    seats: int = 8
    model: str = "diffusiongemma"
    context: int = 65536
    api_key: str | None = None
    brain: Brain = scripted_brain
    judge: Judge = judge_by_words
    transcribe: Transcriber = transcribe_by_size
    synthesize: Synthesizer = chime
    seed: int = 0

    def __post_init__(self) -> None:
        self.requests: list[RequestRecord] = []
        self.typed_questions: list[TypedQuestion] = []
        self.audio_uploads: list[AudioUpload] = []
        self.speech_requests: list[SpeechRequest] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._engine = Engine(self.profile, self.timing, self.seats, self._ask_brain, self._wake_waiters)
        self._faults = EndpointFaultQueue(self.seed)
        server_info = ServerInfo(self.model, self.context, self.profile)
        # Brain, judge, ear and voice are looked up for every request: a test may change those of a running
        # endpoint.
        other_routes = OtherRouteDependencies(
            engine=self._engine,
            server_info=server_info,
            judge=lambda question: self.judge(question),
            transcribe=lambda audio: self.transcribe(audio),
            synthesize=lambda request: self.synthesize(request),
            log_questions=partial(self._log, self.typed_questions),
            log_audio=partial(self._log, self.audio_uploads),
            log_speech=partial(self._log, self.speech_requests),
        )
        self._app = EndpointApp(
            ChatRouteDependencies(
                self._engine,
                self._faults,
                server_info,
                other_routes,
                self.api_key,
                partial(self._log, self.requests),
                self._wake_waiters,
            )
        )
        self.app: ASGIApp = self._app

    @property
    def running(self) -> int:
        """The number of requests on a seat."""
        return self._engine.seats.running

    @property
    def waiting(self) -> int:
        """The number of requests without a seat."""
        return self._engine.seats.waiting

    @property
    def peak_running(self) -> int:
        """The most requests that ever ran at once."""
        return self._engine.seats.peak_running

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests, cached ones included."""
        return self._engine.metrics.prompt_tokens

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were not computed again."""
        return self._engine.metrics.cached_tokens

    @property
    def generated_tokens(self) -> int:
        """Generated tokens, end tokens included."""
        return self._engine.metrics.generated_tokens

    def inject_fault(
        self,
        kind: EndpointFaultKind,
        *,
        times: int | None = 1,
        after_canvases: int = 0,
        seconds: float = 0.0,
        rate: float = 1.0,
    ) -> None:
        """Inject a fault into the next `times` completions (None: all), or into a share `rate` of them.

        Kinds: busy, unauthorized, crash, reset, error_line, silent, slow, no_usage. Raises ValueError for
        others.
        """
        self._faults.add(EndpointFault(kind, times, after_canvases, seconds, rate))

    def heal(self) -> None:
        """Stop all faults and refusals; a dead engine starts again with an empty cache."""
        self._faults.clear()
        self._app.loading_until = 0.0
        self._app.refusing_until = 0.0
        if self._engine.died_at is not None:
            self._engine.revive()

    def simulate_loading(self, seconds: float) -> None:
        """Answer 503 for so long, as a proxy does while the server behind it loads its model."""
        self._app.loading_until = monotonic() + seconds

    def refuse_connections(self, seconds: float) -> None:
        """Cut every connection at once for so long. (For a closed port, stop serving the app.)"""
        self._app.refusing_until = monotonic() + seconds

    def hold(self) -> None:
        """Finish no canvas from now on, until `release`; needs a running loop."""
        self._engine.hold()

    def release(self) -> None:
        """Continue after `hold`."""
        self._engine.release()

    def wait_until(self, predicate: Callable[[], bool], timeout: float = MAX_WAIT_SECONDS) -> Awaitable[None]:
        """Wait until `predicate()` is true; it is called whenever a count or a log changes.

        Raises TimeoutError after `timeout` seconds.
        """
        return asyncio.wait_for(self._wait_until(predicate), timeout)

    def _ask_brain(self, request: ChatRequest) -> str | ScriptedReply:
        return self.brain(request)

    async def _wait_until(self, predicate: Callable[[], bool]) -> None:
        if predicate():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (predicate, done)
        self._waiters.append(waiter)
        try:
            await done
        finally:
            self._waiters.remove(waiter)

    def _wake_waiters(self) -> None:
        for predicate, done in self._waiters:
            if not done.done() and predicate():
                done.set_result(None)

    def _log(self, log: list[Entry], *entries: Entry) -> None:
        log += entries
        del log[:-_MAX_LOG_ENTRIES]
        self._wake_waiters()
