"""A simulated vLLM server with DiffusionGemma over real HTTP, for the demo and the bench; tests extend it.

`bot.http_server.serve` serves `SimulatedEndpoint(brain=…).app`.
"""

from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bot.sim.gemma.tokens import COUNTING_RULE, count_tokens
from bot.sim.vllm.chat_route import ChatRoute
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import ServerInfo, VllmRefusal
from bot.sim.vllm.other_routes import OtherRoutes, SideModels
from bot.sim.vllm.profile import Profile, Timing
from bot.sim.vllm.request import RequestRecord
from bot.sim.vllm.script import Brain, ChatRequest, format_thought, format_tool_call
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
    "SimulatedEndpoint",
    "SpeechRequest",
    "Timing",
    "TypedQuestion",
    "count_tokens",
    "format_thought",
    "format_tool_call",
]


@dataclass(eq=False)
class SimulatedEndpoint:
    """One server with one model. All state is in the object, so any number of them may coexist.

    `context` is max_model_len in tokens. `brain` answers chats, `judge` typed questions; `transcribe` hears,
    `synthesize` speaks. `app` is served.
    """

    profile: Profile = field(default_factory=Profile)
    timing: Timing = field(default_factory=Timing.instant)
    seats: int = 8
    model: str = "diffusiongemma"
    context: int = 65536
    brain: Brain = field(kw_only=True)
    judge: Judge = judge_by_words
    transcribe: Transcriber = transcribe_by_size
    synthesize: Synthesizer = chime

    def __post_init__(self) -> None:
        self.engine = self.build_engine()
        self.app: ASGIApp = Starlette(
            routes=self.build_routes(ServerInfo(self.model, self.context, self.profile)),
            exception_handlers={HTTPException: _answer_http_error, VllmRefusal: self.answer_refusal},
        )

    def build_engine(self) -> Engine:
        """The engine behind the routes."""
        return Engine(self.profile, self.timing, self.seats, self.brain)

    def build_routes(self, server_info: ServerInfo) -> list[Route]:
        """The routes of this server."""
        chat = ChatRoute(self.engine, server_info)
        models = SideModels(self.judge, self.transcribe, self.synthesize)
        others = OtherRoutes(self.engine, server_info, models)
        return [build_chat_path(chat), *others.build_routes()]

    async def answer_refusal(self, _: HttpRequest, error: Exception) -> Response:
        """A refusal as vLLM sends it."""
        assert isinstance(error, VllmRefusal)
        return JSONResponse(error.body, error.status)


def build_chat_path(chat: ChatRoute) -> Route:
    """The route of chats, for a Starlette application."""
    return Route("/v1/chat/completions", chat.answer, methods=["POST"])


async def _answer_http_error(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)
