"""A plain hosted API in the place of vLLM: what it refuses, in its words, and an answer without anything of
vLLM's.

Pure but for the parser underneath. Strict on purpose: a client that sends one field too many must find out
here.
"""

from collections.abc import Mapping
from typing import Any

from bot.sim.vllm.errors import Json, Refusal
from bot.sim.vllm.request import Canvas
from bot.sim.vllm.response import Answer

_FIELDS = frozenset(
    (
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
        *(
            "max_tokens",
            "max_completion_tokens",
            "stop",
            "n",
            "temperature",
            "top_p",
            "seed",
            "reasoning_effort",
        ),
        *(
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "response_format",
        ),
        *("stream", "stream_options", "user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prediction", "modalities", "audio", "verbosity", "web_search_options"),
    )
)
_STREAM_FIELDS = frozenset({"include_usage", "include_obfuscation"})
_MESSAGE_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"})
_CHOICE = ("index", "delta", "message", "logprobs", "finish_reason")
_SAID = ("role", "content", "refusal", "tool_calls")
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


def unauthorized() -> Json:
    """The body of 401."""
    return _body("Incorrect API key provided.", "invalid_api_key", None)


def plain_refusal(refusal: Refusal) -> Json:
    """A refusal as this API words it."""
    codes = {"UnknownParameter": "unknown_parameter", "NotFoundError": "model_not_found"}
    return _body(refusal.message, codes.get(refusal.kind), refusal.param)


def check_hosted(body: Json) -> None:
    """No field is ignored: what this API does not know, it refuses."""
    _known(body, _FIELDS, "")
    _known(body.get("stream_options") or {}, _STREAM_FIELDS, "stream_options.")
    for place, message in enumerate(body["messages"]):
        _known(message, _MESSAGE_FIELDS, f"messages[{place}].")


class HostedAnswer(Answer):
    """An answer of vLLM's, stripped to what every such API gives."""

    def chunks(self, canvas: Canvas) -> list[Json]:
        """The last words and the end are two chunks, as people are used to."""
        plain = [self._plain(chunk) for chunk in super().chunks(canvas)]
        if canvas.last:
            words = plain[-1]
            choice = words["choices"][0]
            if choice["delta"]:
                spoken = {**words, "choices": [{**choice, "finish_reason": None}]}
                plain[-1:] = [spoken, {**words, "choices": [{**choice, "delta": {}}]}]
        return plain

    def tail(self) -> list[Json]:
        """The usage chunk, if it is wanted."""
        return [self._plain(chunk) for chunk in super().tail()]

    def whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        return self._plain(super().whole(text))

    def _plain(self, said: Json) -> Json:
        plain = {key: said[key] for key in ("id", "object", "created", "model")}
        plain |= {"service_tier": "default", "system_fingerprint": "fp_simulated"}
        plain["choices"] = [_choice(choice) for choice in said["choices"]]
        usage = said.get("usage")
        return {**plain, "usage": _usage(usage) if usage else None}


def _known(values: Mapping[str, Any], names: frozenset[str], where: str) -> None:
    for name in values:
        if name not in names:
            raise Refusal(400, f"Unknown parameter: '{where}{name}'.", "UnknownParameter", f"{where}{name}")


def _body(message: str, code: str | None, param: str | None) -> Json:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _choice(choice: Json) -> Json:
    kept = {key: choice[key] for key in _CHOICE if key in choice}
    for key in ("delta", "message"):
        if key in kept:
            kept[key] = {name: kept[key][name] for name in _SAID if name in kept[key]}
    return kept


def _usage(usage: Json) -> Json:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return {
        **{name: usage[name] for name in _USAGE},
        "prompt_tokens_details": {"cached_tokens": prompt.get("cached_tokens", 0), "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": completion.get("reasoning_tokens", 0),
            "audio_tokens": 0,
        },
    }
