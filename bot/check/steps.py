"""The steps of a check, each of one call or a few, and what each adds to the observations.

Owns their order: prompts that share a head come one after another, so that the prefix cache shows.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, Final, get_args

from bot.canvases import CANVAS_TOKENS
from bot.check import load_probe, prompts
from bot.check.client import ProbeClient
from bot.check.observations import (
    THINKING_CALLS,
    CallKind,
    Observations,
    ProbeResponse,
    RouteResponse,
    TemplateCase,
)
from bot.domain import Message, ModelRequest
from bot.llm.dialect import PLAIN, VLLM, Dialect, find_dialect
from bot.llm.server_api import parse_models
from bot.llm.typed_reads import BODY_BUILDERS


class ProbeSteps:
    """Makes the calls, and remembers what it learned of the endpoint: its model and its dialect.

    Each step returns the fields of Observations that it found out, and raises CallLost and CallBudgetSpent as
    the client does.
    """

    def __init__(self, client: ProbeClient, model: str | None) -> None:
        self._client = client
        self._model = model
        self._dialect: Dialect = VLLM
        self._head = prompts.build_head(secrets.token_hex(4))

    async def probe_version(self, observations: Observations) -> Mapping[str, Any]:
        return {"version": await self._client.request_route("GET", "/version")}

    async def probe_models(self, observations: Observations) -> Mapping[str, Any]:
        route = await self._client.request_route("GET", "models")
        if route.status in _KEY_REFUSED:
            return {"models": route}  # vLLM answers the routes before the first model call without a key
        if route.status >= 500:
            reason = f"the endpoint is not ready (HTTP {route.status})"
            return {"models": route, "stopped": reason, "gone": True}
        self._dialect = find_dialect(route.body) or VLLM
        names = [model.name for model in parse_models(route.body)]
        # A model that is not served is a finding; the other steps use one that is.
        if names and self._model not in names:
            self._model = names[0]
        if not self._model:
            return {"models": route, "stopped": "no model is served there"}
        return {"models": route}

    async def probe_without_key(self, observations: Observations) -> Mapping[str, Any]:
        if not observations.has_key:
            return {}
        return {"keyless": await self._client.request_route("GET", "models", with_key=False)}

    async def probe_router(self, observations: Observations) -> Mapping[str, Any]:
        """Which servers of the settings show no gauges, and what a vllm-router says of its own."""
        silent = [
            server for server in observations.servers if await self._client.read_gauges_of(server) is None
        ]
        router = await self._client.request_route("GET", "/list_workers")
        return {"router": router, "silent_servers": tuple(silent)}

    async def probe_gauges(self, observations: Observations) -> Mapping[str, Any]:
        return {"before": await self._client.read_gauges()}

    async def probe_template(self, observations: Observations) -> Mapping[str, Any]:
        templates: dict[TemplateCase, RouteResponse] = {}
        for case in get_args(TemplateCase):
            body = {"model": self._model, **prompts.build_template_body(case)}
            templates[case] = await self._client.request_route("POST", "/tokenize", body)
            if not templates[case].ok:
                break
        return {"templates": templates}

    async def probe_plain_call(self, observations: Observations) -> Mapping[str, Any]:
        """The first model call; if it refuses vLLM's fields, the common protocol is used from then on."""
        if observations.models is not None and observations.models.status in _KEY_REFUSED:
            return {"stopped": "the key is refused" if observations.has_key else "a key is wanted"}
        response = await self._call_model(self._plain_request(), streamed=False)
        if response.ok:
            return _add_response(observations, "plain", response)
        if response.status in {400, 422}:
            self._dialect = PLAIN
            plain_response = await self._call_model(self._plain_request(), streamed=False)
            if plain_response.ok:
                changes = _add_response(observations, "plain", plain_response)
                return {**changes, "refuses_ours": response.error_message}
        changes = _add_response(observations, "plain", response)
        return {**changes, "stopped": "the first model call was refused"}

    async def probe_temperature(self, observations: Observations) -> Mapping[str, Any]:
        body = {**self._build_body(self._plain_request(), streamed=False), "temperature": 0.5}
        return _add_response(observations, "temperature", await self._client.call_model(body))

    async def probe_picture(self, observations: Observations) -> Mapping[str, Any]:
        request = prompts.build_request([prompts.build_picture_message()], with_tools=False)
        response = await self._call_model(replace(request, tools=()), streamed=False)
        return _add_response(observations, "picture", response)

    async def probe_load(self, observations: Observations) -> Mapping[str, Any]:
        bodies = [
            self._build_body(prompts.build_counting_request(prompts.LAST_NUMBER, prompts.MAX_OUTPUT_TOKENS))
            for _ in range(load_probe.CONCURRENT_CALLS - 1)
        ]
        short = self._build_body(prompts.build_counting_request(9, CANVAS_TOKENS))
        urgent = self._build_body(prompts.build_counting_request(9, CANVAS_TOKENS, is_urgent=True))
        return {"crowd": await load_probe.probe_load(self._client, [short, *bodies], urgent)}

    async def probe_abort(self, observations: Observations) -> Mapping[str, Any]:
        request = prompts.build_counting_request(prompts.ENDLESS_LAST_NUMBER, 16 * CANVAS_TOKENS)
        return {"abort": await load_probe.probe_abort(self._client, self._build_body(request))}

    async def probe_typed_read(self, observations: Observations) -> Mapping[str, Any]:
        """The first route that answers a typed question, or the last that does not."""
        for path, build_body in BODY_BUILDERS.items():
            began_at = monotonic()
            body = {"model": self._model, **build_body((prompts.WEATHER,), prompts.WEATHER_STATE)}
            route = await self._client.request_route("POST", path.removeprefix("/"), body)
            if route.ok and "answers" in route.body:
                break
        return {"read": route, "read_path": f"/v1{path}", "read_seconds": monotonic() - began_at}

    async def probe_call(self, observations: Observations, kind: CallKind) -> Mapping[str, Any]:
        """One of the calls that share a head; those that think are left out if thinking has no switch."""
        thinking = kind in THINKING_CALLS
        if thinking and not self._dialect.thinking:
            return {}
        max_tokens = prompts.MAX_OUTPUT_TOKENS
        if thinking:
            max_tokens *= 2
        request = prompts.build_request(
            [self._head, *_CALL_MESSAGES[kind]],
            thinking=thinking,
            with_tools=kind not in {"thought", "counting"},
            max_tokens=max_tokens,
        )
        response = await self._call_model(request, streamed=not kind.endswith("whole"))
        return _add_response(observations, kind, response)

    async def _call_model(self, request: ModelRequest, *, streamed: bool) -> ProbeResponse:
        return await self._client.call_model(self._build_body(request, streamed=streamed))

    def _plain_request(self) -> ModelRequest:
        return prompts.build_request([self._head, *_CALL_MESSAGES["plain"]], with_tools=False)

    def _build_body(self, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
        return self._dialect.build_body(self._model or "", request, streamed=streamed)


ProbeStep = Callable[[ProbeSteps, Observations], Awaitable[Mapping[str, Any]]]
"""Returns the fields of Observations that it found out; raises CallLost and CallBudgetSpent."""

_KEY_REFUSED: Final = frozenset({401, 403})
_TOOL_MESSAGES: Final = (Message("user", prompts.TOOL_PROMPT),)
_CALL_MESSAGES: Final[Mapping[CallKind, tuple[Message, ...]]] = {
    "plain": (Message("user", prompts.PREAMBLE + prompts.READY_PROMPT),),
    "counting": (Message("user", prompts.COUNTING_PROMPT),),
    "tools": _TOOL_MESSAGES,
    "tools, whole": _TOOL_MESSAGES,
    "thought": (Message("user", prompts.THINKING_PROMPT),),
    "tools, thinking": _TOOL_MESSAGES,
    "tools, thinking, whole": _TOOL_MESSAGES,
    "results": (*_TOOL_MESSAGES, *prompts.build_result_messages()),
    "results, whole": (*_TOOL_MESSAGES, *prompts.build_result_messages()),
}


def _call_step(kind: CallKind) -> tuple[str, ProbeStep]:
    return kind, lambda steps, observations: steps.probe_call(observations, kind)


STEPS: Final[tuple[tuple[str, ProbeStep], ...]] = (
    ("version", ProbeSteps.probe_version),
    ("models", ProbeSteps.probe_models),
    ("key", ProbeSteps.probe_without_key),
    ("template", ProbeSteps.probe_template),
    ("router", ProbeSteps.probe_router),
    ("gauges", ProbeSteps.probe_gauges),
    ("plain", ProbeSteps.probe_plain_call),
    *(_call_step(kind) for kind in _CALL_MESSAGES if kind != "plain"),
    ("picture", ProbeSteps.probe_picture),
    ("temperature", ProbeSteps.probe_temperature),
    ("crowd", ProbeSteps.probe_load),
    ("abort", ProbeSteps.probe_abort),
    ("read", ProbeSteps.probe_typed_read),
)


def _add_response(observations: Observations, kind: CallKind, response: ProbeResponse) -> Mapping[str, Any]:
    return {"answers": {**observations.answers, kind: response}}
