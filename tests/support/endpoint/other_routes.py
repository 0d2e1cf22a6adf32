"""The other routes as other servers and releases have them, and those of a dead engine."""

import secrets
from collections.abc import Callable, Sequence
from time import time
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.sim.vllm.errors import Json, ServerInfo
from bot.sim.vllm.other_routes import OtherRoutes, SideModels
from bot.sim.vllm.typed_reads import TypedQuestion
from tests.support.endpoint import systemone
from tests.support.endpoint.engine import EngineDied, FaultyEngine
from tests.support.endpoint.other_servers import SERVERS
from tests.support.endpoint.profiles import ServerProfile
from tests.support.endpoint.refusals import ENGINE_DEAD


class FaultyRoutes(OtherRoutes):
    """The routes of a server of this profile."""

    def __init__(
        self,
        engine: FaultyEngine,
        server_info: ServerInfo,
        models: SideModels,
        profile: ServerProfile,
        log_questions: Callable[..., None],
    ) -> None:
        super().__init__(engine, server_info, models)
        self._faulty_engine = engine
        self._profile = profile
        self._log_questions = log_questions

    def build_routes(self) -> list[Route]:
        """The routes that this profile has."""
        if self._profile.hosted or self._profile.server is not None:
            return self.build_common_routes()
        routes = super().build_routes()
        if self._profile.release < (0, 33):
            routes = [route for route in routes if route.path != "/v1/decisions"]
        if self._profile.release >= (0, 32):
            routes.append(Route("/v1/systemone", self._systemone, methods=["POST"]))
        return routes

    def describe_model(self) -> Json:
        """What is listed of the model beside its name."""
        if self._profile.hosted:
            return {"owned_by": "somebody"}
        if self._profile.server is None:
            return super().describe_model()
        owner = SERVERS[self._profile.server].owner
        return {} if owner is None else {"owned_by": owner}

    async def answer_health(self, http_request: HttpRequest) -> Response:
        """Whether the engine lives."""
        if self._faulty_engine.died_at is not None:
            return Response(status_code=503)
        return await super().answer_health(http_request)

    async def admit_read(self, http_request: HttpRequest) -> Json:
        """The body of typed questions; raises VllmRefusal."""
        if self._faulty_engine.died_at is not None:
            raise ENGINE_DEAD
        return await super().admit_read(http_request)

    async def run_read(
        self, http_request: HttpRequest, body: Json, questions: Sequence[TypedQuestion]
    ) -> Json:
        """Let the model read, unless the client disconnects or the engine dies first; returns the usage."""
        self._log_questions(*questions)
        try:
            return await super().run_read(http_request, body, questions)
        except* EngineDied:
            raise ENGINE_DEAD from None

    async def _systemone(self, http_request: HttpRequest) -> Response:
        body = await self.admit_read(http_request)
        questions = systemone.parse_questions(body)
        usage = await self.run_read(http_request, body, questions)
        answers: dict[str | None, Any] = {
            question.name: systemone.build_answer(question, self.compute_probabilities(question))
            for question in questions
        }
        answer = {
            "id": f"decision-{secrets.token_hex(8)}",
            "object": "structured_decision",
            "created": int(time()),
            "model": self.server_info.model,
            "answers": answers,
            "usage": {key: usage[key] for key in ("input_tokens", "output_tokens")},
            "diagnostics": {name: systemone.build_diagnostics() for name in answers},
        }
        return JSONResponse({**answer, "joint": None})
