"""The other routes of the simulated server: models, health, counters, tokens, typed questions, sound.

Owns nothing; calls the engine.
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from time import time

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.sim.vllm import typed_reads
from bot.sim.vllm.engine import Engine
from bot.sim.vllm.errors import (
    Json,
    ServerInfo,
    VllmRefusal,
    build_openai_error,
    check_model,
    parse_body,
)
from bot.sim.vllm.metrics import render_exposition
from bot.sim.vllm.speech import MEDIA_TYPES, Synthesizer, parse_speech_body
from bot.sim.vllm.tokenize import answer_tokenize
from bot.sim.vllm.transcription import Transcriber, parse_audio_form
from bot.sim.vllm.typed_reads import Judge, TypedQuestion

_DECISIONS_UNSUPPORTED = VllmRefusal(
    501, "The model does not support the Decisions API", "NotImplementedError"
)
_CLIENT_CLOSED_STATUS = 499


@dataclass(frozen=True, slots=True)
class SideModels:
    """The judge of typed questions, and who transcribes and speaks."""

    judge: Judge
    transcribe: Transcriber
    synthesize: Synthesizer


class OtherRoutes:
    """The routes, for a Starlette application."""

    def __init__(self, engine: Engine, server_info: ServerInfo, models: SideModels) -> None:
        self.engine = engine
        self.server_info = server_info
        self._models = models
        self._created = int(time())

    def build_routes(self) -> list[Route]:
        """All routes."""
        return [
            *self.build_common_routes(),
            Route("/version", self._version, methods=["GET"]),
            Route("/health", self.answer_health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/v1/decisions", self._decisions, methods=["POST"]),
        ]

    def build_common_routes(self) -> list[Route]:
        """The routes that other servers have, too."""
        return [
            Route("/v1/models", self._list_models, methods=["GET"]),
            Route("/v1/audio/transcriptions", self._transcriptions, methods=["POST"]),
            Route("/v1/audio/speech", self._speech, methods=["POST"]),
        ]

    async def _list_models(self, _: HttpRequest) -> Response:
        listed = {"id": self.server_info.model, "object": "model", "created": self._created}
        return JSONResponse({"object": "list", "data": [{**listed, **self.describe_model()}]})

    def describe_model(self) -> Json:
        """What is listed of the model beside its name."""
        permission = {
            "id": f"modelperm-{secrets.token_hex(8)}",
            "object": "model_permission",
            "created": self._created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "owned_by": "vllm",
            "root": "simulated",
            "parent": None,
            "max_model_len": self.server_info.context_tokens,
            "permission": [permission],
        }

    async def _version(self, _: HttpRequest) -> Response:
        return JSONResponse({"version": self.server_info.profile.version})

    async def answer_health(self, _: HttpRequest) -> Response:
        """Whether the engine lives."""
        return Response()

    async def _metrics(self, _: HttpRequest) -> Response:
        diffusion = self.server_info.profile.knows_diffusion
        text = render_exposition(
            self.engine.metrics, self.engine.load, self.server_info.model, has_diffusion=diffusion
        )
        return PlainTextResponse(text, media_type="text/plain; version=1.0.0")

    async def _tokenize(self, http_request: HttpRequest) -> Response:
        return JSONResponse(answer_tokenize(await _read_json(http_request), self.server_info))

    async def _transcriptions(self, http_request: HttpRequest) -> Response:
        try:
            sound = parse_audio_form(await http_request.body(), http_request.headers.get("content-type", ""))
        except VllmRefusal as refusal:
            return JSONResponse(build_openai_error(refusal), refusal.status)
        return JSONResponse({"text": self._models.transcribe(sound)})

    async def _speech(self, http_request: HttpRequest) -> Response:
        try:
            request = parse_speech_body(await _read_json(http_request))
        except VllmRefusal as refusal:
            return JSONResponse(build_openai_error(refusal), refusal.status)
        sound = await self._models.synthesize(request)
        return Response(sound, media_type=MEDIA_TYPES[request.response_format])

    async def _decisions(self, http_request: HttpRequest) -> Response:
        body = await self.admit_read(http_request)
        questions = typed_reads.parse_questions(body)
        usage = await self.run_read(http_request, body, questions)
        answers = [
            typed_reads.build_answer(question, self.compute_probabilities(question)) for question in questions
        ]
        return JSONResponse({"model": self.server_info.model, "answers": answers, "usage": usage})

    def compute_probabilities(self, question: TypedQuestion) -> tuple[float, ...]:
        """How likely the model finds each option."""
        return typed_reads.compute_probabilities(question, self._models.judge)

    async def admit_read(self, http_request: HttpRequest) -> Json:
        """The body of typed questions; raises VllmRefusal."""
        if not self.server_info.profile.logprobs:
            raise _DECISIONS_UNSUPPORTED
        body = await _read_json(http_request)
        check_model(body, self.server_info)
        return body

    async def run_read(
        self, http_request: HttpRequest, body: Json, questions: Sequence[TypedQuestion]
    ) -> Json:
        """Let the model read, unless the client disconnects first; returns the usage."""
        prompt = typed_reads.build_read_prompt(questions, body.get("instructions"))
        step = self.engine.read_once(
            prompt, typed_reads.count_read_canvases(questions), int(body.get("priority") or 0)
        )
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(step, name="read")
            watching = tasks.create_task(_cancel_on_disconnect(http_request, reading), name="client")
            reading.add_done_callback(lambda _: watching.cancel())
        if reading.cancelled():
            raise VllmRefusal(_CLIENT_CLOSED_STATUS, "Client disconnected")
        tokens, cached = reading.result()
        output_tokens = typed_reads.ANSWER_POSITIONS * len(questions)
        return {
            "input_tokens": tokens,
            "input_tokens_details": {
                "cached_tokens": cached.hit_tokens,
                "cache_write_tokens": cached.created_tokens,
            },
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + output_tokens,
        }


async def _read_json(http_request: HttpRequest) -> Json:
    return parse_body(await http_request.body(), http_request.headers.get("content-type", ""))


async def _cancel_on_disconnect(http_request: HttpRequest, reading: asyncio.Task[object]) -> None:
    while (await http_request.receive())["type"] != "http.disconnect":
        pass
    reading.cancel()
