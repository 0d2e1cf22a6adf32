"""The routes of the simulated server beside chat: models, health, counters, tokens, typed questions,
transcription.

Owns nothing; asks the engine. What is not vLLM has few of them.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.sim.vllm import typed_reads as decisions
from bot.sim.vllm.engine import Engine, EngineDied
from bot.sim.vllm.errors import DEAD, Json, Refusal, Server, check_model, parse
from bot.sim.vllm.hosted_api import plain_refusal
from bot.sim.vllm.metrics import exposition
from bot.sim.vllm.tokenize import Tokenizer
from bot.sim.vllm.transcription import Sound, Transcribe, sound_of
from bot.sim.vllm.typed_reads import Judge, Question

_UNABLE = Refusal(501, "The model does not support the Decisions API", "NotImplementedError")
_GONE = 499


@dataclass(frozen=True, slots=True)
class SideParts:
    """What these routes work with: who answers typed questions, who hears, and the logs of both."""

    engine: Engine
    server: Server
    judge: Judge
    transcribe: Transcribe
    asked: Callable[[Sequence[Question]], None]
    heard: Callable[[Sound], None]


class SideRoutes:
    """The routes, for a Starlette application."""

    def __init__(self, parts: SideParts) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._server = parts.server
        self._tokenizer = Tokenizer(parts.server)
        self._created = int(time())

    def table(self) -> list[Route]:
        """The routes this profile has."""
        release = self._server.profile.release
        everywhere = [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/audio/transcriptions", self._transcriptions, methods=["POST"]),
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
        if self._server.profile.hosted:
            return everywhere
        return everywhere + vllm

    async def _models(self, _: HttpRequest) -> Response:
        listed = {"id": self._server.model, "object": "model", "created": self._created}
        if self._server.profile.hosted:
            return JSONResponse({"object": "list", "data": [{**listed, "owned_by": "somebody"}]})
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
            "max_model_len": self._server.context,
            "permission": [permission],
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _version(self, _: HttpRequest) -> Response:
        return JSONResponse({"version": self._server.profile.version})

    async def _health(self, _: HttpRequest) -> Response:
        return Response(status_code=200 if self._engine.died_at is None else 503)

    async def _load(self, _: HttpRequest) -> Response:
        load = self._engine.load
        return JSONResponse(
            {"server_load": load.running + load.waiting if self._server.profile.load_tracking else 0}
        )

    async def _metrics(self, _: HttpRequest) -> Response:
        diffusion = self._server.profile.diffusion_checks
        text = exposition(self._engine.metrics, self._engine.load, self._server.model, diffusion=diffusion)
        return PlainTextResponse(text, media_type="text/plain; version=1.0.0")

    async def _tokenize(self, http: HttpRequest) -> Response:
        try:
            return JSONResponse(self._tokenizer.tokenize(await _json(http)))
        except Refusal as refusal:
            return refused(refusal)

    async def _detokenize(self, http: HttpRequest) -> Response:
        try:
            return JSONResponse(self._tokenizer.detokenize((await _json(http)).get("tokens") or ()))
        except Refusal as refusal:
            return refused(refusal)

    async def _transcriptions(self, http: HttpRequest) -> Response:
        try:
            sound = sound_of(await http.body(), http.headers.get("content-type", ""))
        except Refusal as refusal:
            return JSONResponse(plain_refusal(refusal), refusal.status)
        self._parts.heard(sound)
        return JSONResponse({"text": self._parts.transcribe(sound)})

    async def _systemone(self, http: HttpRequest) -> Response:
        try:
            body = await self._admitted(http)
            questions = decisions.systemone_questions(body)
            usage = await self._read(http, body, questions)
        except Refusal as refusal:
            return refused(refusal)
        chances = [decisions.shares(question, self._parts.judge) for question in questions]
        names = [question.name for question in questions]
        answers = map(decisions.systemone_answer, questions, chances)
        told = {
            "id": f"decision-{secrets.token_hex(8)}",
            "object": "structured_decision",
            "created": int(time()),
            "model": self._server.model,
            "answers": dict(zip(names, answers, strict=True)),
            "usage": {key: usage[key] for key in ("input_tokens", "output_tokens")},
            "diagnostics": {name: decisions.diagnostics() for name in names},
        }
        return JSONResponse({**told, "joint": None})

    async def _decisions(self, http: HttpRequest) -> Response:
        try:
            body = await self._admitted(http)
            questions = decisions.decisions_questions(body)
            usage = await self._read(http, body, questions)
        except Refusal as refusal:
            return refused(refusal)
        chances = [decisions.shares(question, self._parts.judge) for question in questions]
        answers = list(map(decisions.decisions_answer, questions, chances))
        return JSONResponse({"model": self._server.model, "answers": answers, "usage": usage})

    async def _admitted(self, http: HttpRequest) -> Json:
        if not self._server.profile.logprobs:
            raise _UNABLE
        if self._engine.died_at is not None:
            raise DEAD
        body = await _json(http)
        check_model(body, self._server)
        return body

    async def _read(self, http: HttpRequest, body: Json, questions: Sequence[Question]) -> Json:
        """Let the model read, unless the client goes first; returns the usage."""
        self._parts.asked(questions)
        prompt = decisions.read_prompt(questions, body.get("instructions"))
        step = self._engine.read(prompt, decisions.reads(questions), int(body.get("priority") or 0))
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(step, name="read")
                watching = tasks.create_task(_watch(http, reading), name="client")
                reading.add_done_callback(lambda _: watching.cancel())
        except* EngineDied:
            raise DEAD from None
        if reading.cancelled():
            raise Refusal(_GONE, "Client disconnected")
        tokens, cached = reading.result()
        told = decisions.SLOTS * len(questions)
        return {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": cached.hit, "cache_write_tokens": cached.created},
            "output_tokens": told,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + told,
        }


def refused(refusal: Refusal) -> Response:
    """A refusal as vLLM sends it."""
    return JSONResponse(refusal.body, refusal.status)


async def _json(http: HttpRequest) -> Json:
    return parse(await http.body(), http.headers.get("content-type", ""))


async def _watch(http: HttpRequest, reading: asyncio.Task[object]) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
    reading.cancel()
