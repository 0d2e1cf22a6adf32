"""The simulated vLLM server of the tests: with faults, logs and waits, or another server in its place.

`bot.http_server.serve` serves `ScriptedEndpoint().app`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeVar

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.sim.vllm.errors import ServerInfo, VllmRefusal
from bot.sim.vllm.other_routes import SideModels
from bot.sim.vllm.script import Brain
from bot.sim.vllm.server import SimulatedEndpoint, build_chat_path
from bot.sim.vllm.speech import SpeechRequest
from bot.sim.vllm.sse import DONE, format_event
from bot.sim.vllm.transcription import AudioUpload
from bot.sim.vllm.typed_reads import TypedQuestion
from tests.support.endpoint.brains import ScriptedReply, reply_with, scripted_brain
from tests.support.endpoint.chat_route import FaultyChatRoute
from tests.support.endpoint.engine import FaultyEngine
from tests.support.endpoint.faults import EndpointFault, EndpointFaultKind, EndpointFaultQueue, FaultyRecord
from tests.support.endpoint.gate import Gate
from tests.support.endpoint.hosted_api import build_refusal_body
from tests.support.endpoint.model_faults import with_model_faults
from tests.support.endpoint.other_routes import FaultyRoutes
from tests.support.endpoint.profiles import ServerProfile
from tests.support.endpoint.refusals import QUEUE_FULL_EVENT, UNAUTHORIZED

__all__ = [
    "ScriptedEndpoint",
    "ScriptedReply",
    "ServerProfile",
    "reply_with",
    "scripted_brain",
    "with_model_faults",
]

Entry = TypeVar("Entry")

# A full log forgets what is oldest: some tests send very much.
_MAX_LOG_ENTRIES = 4000
MAX_WAIT_SECONDS = 240.0  # seconds until a wait for what never comes is given up; the machine may be busy


@dataclass(eq=False)
class ScriptedEndpoint(SimulatedEndpoint):
    """A simulated server that a test acts upon.

    Without `api_key` none is required; `seed` draws the faults that have a rate. `requests`,
    `typed_questions`, `audio_uploads` and `speech_requests` are the logs.
    """

    profile: ServerProfile = field(default_factory=ServerProfile)
    brain: Brain = field(default=scripted_brain, kw_only=True)
    api_key: str | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        self.requests: list[FaultyRecord] = []
        self.typed_questions: list[TypedQuestion] = []
        self.audio_uploads: list[AudioUpload] = []
        self.speech_requests: list[SpeechRequest] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._faults = EndpointFaultQueue(self.seed)
        super().__post_init__()
        self._gate = Gate(self.app, self._faulty_engine, self.api_key, self._build_refusal)
        self.app = self._gate

    # Brain, judge, ear and voice are looked up for every request: a test may change those of a running
    # endpoint.

    def build_engine(self) -> FaultyEngine:
        """The engine behind the routes."""
        self._faulty_engine = FaultyEngine(
            self.profile, self.timing, self.seats, lambda request: self.brain(request), self._wake_waiters
        )
        return self._faulty_engine

    def build_routes(self, server_info: ServerInfo) -> list[Route]:
        """The routes of this server."""
        log_request = partial(self._log, self.requests)
        chat = FaultyChatRoute(self._faulty_engine, server_info, self.profile, self._faults, log_request)
        models = SideModels(lambda question: self.judge(question), self._transcribe, self._synthesize)
        log_questions = partial(self._log, self.typed_questions)
        others = FaultyRoutes(self._faulty_engine, server_info, models, self.profile, log_questions)
        return [build_chat_path(chat), *others.build_routes()]

    @property
    def running(self) -> int:
        """The number of requests on a seat."""
        return self._faulty_engine.seats.running

    @property
    def waiting(self) -> int:
        """The number of requests without a seat."""
        return self._faulty_engine.seats.waiting

    @property
    def peak_running(self) -> int:
        """The most requests that ever ran at once."""
        return self._faulty_engine.seats.peak_running

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests, cached ones included."""
        return self._faulty_engine.metrics.prompt_tokens

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that were not computed again."""
        return self._faulty_engine.metrics.cached_tokens

    @property
    def generated_tokens(self) -> int:
        """Generated tokens, end tokens included."""
        return self._faulty_engine.metrics.generated_tokens

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
        self._gate.loading_until = 0.0
        self._gate.refusing_until = 0.0
        if self._faulty_engine.died_at is not None:
            self._faulty_engine.revive()

    def simulate_loading(self, seconds: float) -> None:
        """Answer 503 for so long, as a proxy does while the server behind it loads its model."""
        self._gate.loading_until = monotonic() + seconds

    def refuse_connections(self, seconds: float) -> None:
        """Cut every connection at once for so long. (For a closed port, stop serving the app.)"""
        self._gate.refusing_until = monotonic() + seconds

    def hold(self) -> None:
        """Finish no canvas from now on, until `release`; needs a running loop."""
        self._faulty_engine.hold()

    def release(self) -> None:
        """Continue after `hold`."""
        self._faulty_engine.release()

    def wait_until(self, predicate: Callable[[], bool], timeout: float = MAX_WAIT_SECONDS) -> Awaitable[None]:
        """Wait until `predicate()` is true; it is called whenever a count or a log changes.

        Raises TimeoutError after `timeout` seconds.
        """
        return asyncio.wait_for(self._wait_until(predicate), timeout)

    async def answer_refusal(self, _: HttpRequest, error: Exception) -> Response:
        """A refusal as this server sends it."""
        assert isinstance(error, VllmRefusal)
        return self._build_refusal(error)

    def _build_refusal(self, refusal: VllmRefusal) -> Response:
        if refusal is QUEUE_FULL_EVENT:
            return Response(format_event(refusal.body) + DONE, media_type="text/event-stream")
        if self.profile.hosted:
            return JSONResponse(build_refusal_body(refusal), refusal.status)
        if refusal is UNAUTHORIZED:
            return JSONResponse({"error": "Unauthorized"}, refusal.status)
        return JSONResponse(refusal.body, refusal.status)

    def _transcribe(self, audio: AudioUpload) -> str:
        self._log(self.audio_uploads, audio)
        return self.transcribe(audio)

    async def _synthesize(self, request: SpeechRequest) -> bytes:
        self._log(self.speech_requests, request)
        return await self.synthesize(request)

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
