"""The steps of a check, each a call or a few, and what each adds to what was seen.

Owns their order: prompts that share a head come one after another, so that the prefix cache shows itself.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bot.check import load_probe as crowd
from bot.check import prompts
from bot.check.client import ProbeClient
from bot.check.observations import (
    THINKING_CALLS,
    CallKind,
    Observations,
    ProbeResponse,
    RouteResponse,
    TemplateCase,
)
from bot.domain import CANVAS_TOKENS, Message, ModelRequest
from bot.llm.dialect import PLAIN, VLLM, Dialect
from bot.llm.server_api import parse_models


class ProbeSteps:
    """Asks over a wire, and remembers what it has learned of the endpoint: its model and its language."""

    def __init__(self, client: ProbeClient, model: str | None) -> None:
        self._client = client
        self._model = model
        self._dialect: Dialect = VLLM
        self._head = prompts.build_head(secrets.token_hex(4))

    # Each gives the fields of `Seen` that are known by it, and raises Lost and Spent as the wire does.

    async def probe_version(self, observations: Observations) -> Mapping[str, Any]:
        return {"version": await self._client.request_route("GET", "/version")}

    async def probe_models(self, observations: Observations) -> Mapping[str, Any]:
        route = await self._client.request_route("GET", "models")
        found: dict[str, Any] = {"models": route}
        if route.status in {401, 403}:
            if observations.has_key:
                found["stopped"] = "the key is refused"
            else:
                found["stopped"] = "a key is wanted"
        elif route.status >= 500:
            found |= {"stopped": f"the endpoint is not ready (HTTP {route.status})", "gone": True}
        else:
            names = [model.name for model in parse_models(route.body)]
            # A model that is not there is a finding; the rest is looked at with one that is.
            if self._model in names or not names:
                self._model = self._model
            else:
                self._model = names[0]
            if self._model:
                found["stopped"] = None
            else:
                found["stopped"] = "no model is served there"
        return found

    async def probe_without_key(self, observations: Observations) -> Mapping[str, Any]:
        if not observations.has_key:
            return {}
        return {"keyless": await self._client.request_route("GET", "models", with_key=False)}

    async def probe_gauges(self, observations: Observations) -> Mapping[str, Any]:
        return {"before": await self._client.read_gauges()}

    async def probe_template(self, observations: Observations) -> Mapping[str, Any]:
        shown: dict[TemplateCase, RouteResponse] = {}
        for shape in _TEMPLATE_CASES:
            shown[shape] = await self._client.request_route(
                "POST", "/tokenize", {"model": self._model, **prompts.build_template_body(shape)}
            )
            if not shown[shape].ok:
                break
        return {"templates": shown}

    async def probe_plain_call(self, observations: Observations) -> Mapping[str, Any]:
        """The first call of all; a server that refuses vLLM's fields is asked in the common protocol from
        here on.
        """
        answer = await self._client.call_model(self._build_body(self._plain_request(), streamed=False))
        if answer.ok:
            return _add_response(observations, "plain", answer)
        if answer.status in {400, 422}:
            self._dialect = PLAIN
            again = await self._client.call_model(self._build_body(self._plain_request(), streamed=False))
            if again.ok:
                return {**_add_response(observations, "plain", again), "refuses_ours": answer.error_message}
        return {**_add_response(observations, "plain", answer), "stopped": "the first model call was refused"}

    async def probe_temperature(self, observations: Observations) -> Mapping[str, Any]:
        body = {**self._build_body(self._plain_request(), streamed=False), "temperature": 0.5}
        return _add_response(observations, "temperature", await self._client.call_model(body))

    async def probe_picture(self, observations: Observations) -> Mapping[str, Any]:
        request = prompts.build_request([prompts.build_picture_message()], with_tools=False)
        return _add_response(
            observations,
            "picture",
            await self._client.call_model(self._build_body(replace(request, tools=()), streamed=False)),
        )

    async def probe_load(self, observations: Observations) -> Mapping[str, Any]:
        bodies = [
            self._build_body(prompts.build_counting_request(prompts.LAST_NUMBER, prompts.MAX_OUTPUT_TOKENS))
            for _ in range(crowd.CONCURRENT_CALLS - 1)
        ]
        short = self._build_body(prompts.build_counting_request(9, CANVAS_TOKENS))
        urgent = self._build_body(prompts.build_counting_request(9, CANVAS_TOKENS, is_urgent=True))
        return {"crowd": await crowd.probe_load(self._client, [short, *bodies], urgent)}

    async def probe_abort(self, observations: Observations) -> Mapping[str, Any]:
        body = self._build_body(
            prompts.build_counting_request(prompts.ENDLESS_LAST_NUMBER, 16 * CANVAS_TOKENS)
        )
        return {"abort": await crowd.probe_abort(self._client, body)}

    async def probe_typed_read(self, observations: Observations) -> Mapping[str, Any]:
        return {
            "read": await self._client.request_route(
                "POST", "systemone", prompts.build_typed_read_body(self._model or "")
            )
        }

    async def probe_call(self, observations: Observations, kind: CallKind) -> Mapping[str, Any]:
        """One of the calls that share a head; nothing is asked of thinking where it cannot be switched."""
        thinks = kind in THINKING_CALLS
        if thinks and not self._dialect.thinking:
            return {}
        request = prompts.build_request(
            [self._head, *_CALL_MESSAGES[kind]],
            thinking=thinks,
            with_tools=kind not in {"thought", "counting"},
            max_tokens=prompts.MAX_OUTPUT_TOKENS * (2 if thinks else 1),
        )
        return _add_response(
            observations,
            kind,
            await self._client.call_model(self._build_body(request, streamed=not kind.endswith("whole"))),
        )

    def _plain_request(self) -> ModelRequest:
        return prompts.build_request([self._head, *_CALL_MESSAGES["plain"]], with_tools=False)

    def _build_body(self, request: ModelRequest, *, streamed: bool = True) -> dict[str, Any]:
        return prompts.build_body(self._dialect, self._model or "", request, streamed=streamed)


ProbeStep = Callable[[ProbeSteps, Observations], Awaitable[Mapping[str, Any]]]
"""Gives the fields of `Seen` that are known by it; raises Lost and Spent as the wire does."""

_TEMPLATE_CASES: Final[tuple[TemplateCase, ...]] = ("off", "on", "default", "history", "loop")
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
    return kind, lambda asker, seen: asker.probe_call(seen, kind)


STEPS: Final[tuple[tuple[str, ProbeStep], ...]] = (
    ("version", ProbeSteps.probe_version),
    ("models", ProbeSteps.probe_models),
    ("key", ProbeSteps.probe_without_key),
    ("template", ProbeSteps.probe_template),
    ("gauges", ProbeSteps.probe_gauges),
    ("plain", ProbeSteps.probe_plain_call),
    *(_call_step(part) for part in _CALL_MESSAGES if part != "plain"),
    ("picture", ProbeSteps.probe_picture),
    ("temperature", ProbeSteps.probe_temperature),
    ("crowd", ProbeSteps.probe_load),
    ("abort", ProbeSteps.probe_abort),
    ("read", ProbeSteps.probe_typed_read),
)


def _add_response(observations: Observations, kind: CallKind, response: ProbeResponse) -> Mapping[str, Any]:
    return {"answers": {**observations.answers, kind: response}}
