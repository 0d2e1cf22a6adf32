"""The other routes of the simulated server: models, health, counters, tokens, typed questions, sound.

Owns nothing; calls the engine. A server that is not vLLM has few of them.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.sim.vllm import typed_reads
from bot.sim.vllm.engine import Engine, EngineDied
from bot.sim.vllm.errors import ENGINE_DEAD, Json, ServerInfo, VllmRefusal, check_model, parse_body
from bot.sim.vllm.hosted_api import build_refusal_body
from bot.sim.vllm.metrics import render_exposition
from bot.sim.vllm.other_servers import SERVERS
from bot.sim.vllm.speech import MEDIA_TYPES, SpeechRequest, Synthesizer, parse_speech_body
from bot.sim.vllm.tokenize import Tokenizer
from bot.sim.vllm.transcription import AudioUpload, Transcriber, parse_audio_form
from bot.sim.vllm.typed_reads import Judge, TypedQuestion

_DECISIONS_UNSUPPORTED = VllmRefusal(
    501, "The model does not support the Decisions API", "NotImplementedError"
)
_CLIENT_CLOSED_STATUS = 499


@dataclass(frozen=True, slots=True)
class OtherRouteDependencies:
    """What these routes work with: the judge of typed questions, who transcribes and speaks, and the logs."""

    engine: Engine
    server_info: ServerInfo
    judge: Judge
    transcribe: Transcriber
    synthesize: Synthesizer
    log_questions: Callable[..., None]
    log_audio: Callable[[AudioUpload], None]
    log_speech: Callable[[SpeechRequest], None]


class OtherRoutes:
    """The routes, for a Starlette application."""

    def __init__(self, dependencies: OtherRouteDependencies) -> None:
        self._dependencies = dependencies
        self._engine = dependencies.engine
        self._server_info = dependencies.server_info
        self._tokenizer = Tokenizer(dependencies.server_info)
        self._created = int(time())

    def build_routes(self) -> list[Route]:
        """The routes that this profile has."""
        release = self._server_info.profile.release
        everywhere = [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/audio/transcriptions", self._transcriptions, methods=["POST"]),
            Route("/v1/audio/speech", self._speech, methods=["POST"]),
        ]
        vllm = [
            Route("/version", self._version, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ping", self._health, methods=["GET", "POST"]),
            Route("/load", self._load, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/detokenize", self._detokenize, methods=["POST"]),
        ]
        if release >= (0, 32):
            vllm.append(Route("/v1/systemone", self._systemone, methods=["POST"]))
        if release >= (0, 33):
            vllm.append(Route("/v1/decisions", self._decisions, methods=["POST"]))
        if self._server_info.profile.hosted or self._server_info.profile.server:
            return everywhere
        return everywhere + vllm

    async def _models(self, _: HttpRequest) -> Response:
        listed = {"id": self._server_info.model, "object": "model", "created": self._created}
        if self._server_info.profile.hosted:
            return JSONResponse({"object": "list", "data": [{**listed, "owned_by": "somebody"}]})
        if self._server_info.profile.server is not None:
            owner = SERVERS[self._server_info.profile.server].owner
            owned = {} if owner is None else {"owned_by": owner}
            return JSONResponse({"object": "list", "data": [{**listed, **owned}]})
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
        model = {
            **listed,
            "owned_by": "vllm",
            "root": "simulated",
            "parent": None,
            "max_model_len": self._server_info.context_tokens,
            "permission": [permission],
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _version(self, _: HttpRequest) -> Response:
        return JSONResponse({"version": self._server_info.profile.version})

    async def _health(self, _: HttpRequest) -> Response:
        return Response(status_code=200 if self._engine.died_at is None else 503)

    async def _load(self, _: HttpRequest) -> Response:
        load = self._engine.load
        return JSONResponse(
            {"server_load": load.running + load.waiting if self._server_info.profile.load_tracking else 0}
        )

    async def _metrics(self, _: HttpRequest) -> Response:
        diffusion = self._server_info.profile.knows_diffusion
        text = render_exposition(
            self._engine.metrics, self._engine.load, self._server_info.model, has_diffusion=diffusion
        )
        return PlainTextResponse(text, media_type="text/plain; version=1.0.0")

    async def _tokenize(self, http_request: HttpRequest) -> Response:
        return JSONResponse(self._tokenizer.tokenize(await _read_json(http_request)))

    async def _detokenize(self, http_request: HttpRequest) -> Response:
        tokens = (await _read_json(http_request)).get("tokens") or ()
        return JSONResponse(self._tokenizer.detokenize(tokens))

    async def _transcriptions(self, http_request: HttpRequest) -> Response:
        try:
            sound = parse_audio_form(await http_request.body(), http_request.headers.get("content-type", ""))
        except VllmRefusal as refusal:
            return JSONResponse(build_refusal_body(refusal), refusal.status)
        self._dependencies.log_audio(sound)
        return JSONResponse({"text": self._dependencies.transcribe(sound)})

    async def _speech(self, http_request: HttpRequest) -> Response:
        try:
            request = parse_speech_body(await _read_json(http_request))
        except VllmRefusal as refusal:
            return JSONResponse(build_refusal_body(refusal), refusal.status)
        self._dependencies.log_speech(request)
        sound = await self._dependencies.synthesize(request)
        return Response(sound, media_type=MEDIA_TYPES[request.response_format])

    async def _systemone(self, http_request: HttpRequest) -> Response:
        body = await self._admit_read(http_request)
        questions = typed_reads.parse_systemone_questions(body)
        usage = await self._run_read(http_request, body, questions)
        chances = [
            typed_reads.compute_probabilities(question, self._dependencies.judge) for question in questions
        ]
        names = [question.name for question in questions]
        answers = map(typed_reads.build_systemone_answer, questions, chances)
        answer = {
            "id": f"decision-{secrets.token_hex(8)}",
            "object": "structured_decision",
            "created": int(time()),
            "model": self._server_info.model,
            "answers": dict(zip(names, answers, strict=True)),
            "usage": {key: usage[key] for key in ("input_tokens", "output_tokens")},
            "diagnostics": {name: typed_reads.build_diagnostics() for name in names},
        }
        return JSONResponse({**answer, "joint": None})

    async def _decisions(self, http_request: HttpRequest) -> Response:
        body = await self._admit_read(http_request)
        questions = typed_reads.parse_decisions_questions(body)
        usage = await self._run_read(http_request, body, questions)
        chances = [
            typed_reads.compute_probabilities(question, self._dependencies.judge) for question in questions
        ]
        answers = list(map(typed_reads.build_decisions_answer, questions, chances))
        return JSONResponse({"model": self._server_info.model, "answers": answers, "usage": usage})

    async def _admit_read(self, http_request: HttpRequest) -> Json:
        if not self._server_info.profile.logprobs:
            raise _DECISIONS_UNSUPPORTED
        if self._engine.died_at is not None:
            raise ENGINE_DEAD
        body = await _read_json(http_request)
        check_model(body, self._server_info)
        return body

    async def _run_read(
        self, http_request: HttpRequest, body: Json, questions: Sequence[TypedQuestion]
    ) -> Json:
        """Let the model read, unless the client disconnects first; returns the usage."""
        self._dependencies.log_questions(*questions)
        prompt = typed_reads.build_read_prompt(questions, body.get("instructions"))
        step = self._engine.read_once(
            prompt, typed_reads.count_read_canvases(questions), int(body.get("priority") or 0)
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(step, name="read")
                watching = tasks.create_task(_cancel_on_disconnect(http_request, reading), name="client")
                reading.add_done_callback(lambda _: watching.cancel())
        except* EngineDied:
            raise ENGINE_DEAD from None
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
