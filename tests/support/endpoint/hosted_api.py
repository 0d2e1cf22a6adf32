"""A plain hosted API instead of vLLM: what it refuses, its wording, and answers without vLLM's fields.

Pure but for the parser underneath. Strict on purpose: a client that sends one field too many must fail here.
"""

from collections.abc import Mapping
from typing import Any

from bot.sim.vllm.errors import Json, VllmRefusal, build_openai_error
from bot.sim.vllm.request import Canvas
from bot.sim.vllm.response import CompletionEncoder

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
_CHOICE_KEYS = ("index", "delta", "message", "logprobs", "finish_reason")
_MESSAGE_KEYS = ("role", "content", "refusal", "tool_calls")
_USAGE_KEYS = ("prompt_tokens", "completion_tokens", "total_tokens")


_CODES = {
    "UnknownParameter": "unknown_parameter",
    "NotFoundError": "model_not_found",
    "Unauthorized": "invalid_api_key",
}


def build_refusal_body(refusal: VllmRefusal) -> Json:
    """A refusal as this API words it."""
    error = build_openai_error(refusal)["error"]
    return {"error": {**error, "code": _CODES.get(refusal.kind)}}


def check_hosted_fields(body: Json) -> None:
    """Refuse every field that this API does not know; none is ignored."""
    _check_known_fields(body, _FIELDS, "")
    _check_known_fields(body.get("stream_options") or {}, _STREAM_FIELDS, "stream_options.")
    for place, message in enumerate(body["messages"]):
        _check_known_fields(message, _MESSAGE_FIELDS, f"messages[{place}].")


class HostedCompletionEncoder(CompletionEncoder):
    """An answer of vLLM, reduced to what every such API returns."""

    def encode_canvas(self, canvas: Canvas) -> list[Json]:
        """The last chunk and the end are two chunks, as clients expect."""
        plain = [self._strip_vllm_fields(chunk) for chunk in super().encode_canvas(canvas)]
        if canvas.is_last:
            chunk = plain[-1]
            choice = chunk["choices"][0]
            if choice["delta"]:
                spoken = {**chunk, "choices": [{**choice, "finish_reason": None}]}
                plain[-1:] = [spoken, {**chunk, "choices": [{**choice, "delta": {}}]}]
        return plain

    def encode_tail(self) -> list[Json]:
        """The usage chunk, if it is requested."""
        return [self._strip_vllm_fields(chunk) for chunk in super().encode_tail()]

    def encode_whole(self, text: str) -> Json:
        """The body of an answer that is not streamed."""
        return self._strip_vllm_fields(super().encode_whole(text))

    def _strip_vllm_fields(self, body: Json) -> Json:
        plain = {key: body[key] for key in ("id", "object", "created", "model")}
        plain |= {"service_tier": "default", "system_fingerprint": "fp_simulated"}
        plain["choices"] = [_strip_choice(choice) for choice in body["choices"]]
        usage = body.get("usage")
        return {**plain, "usage": _strip_usage(usage) if usage else None}


def _check_known_fields(values: Mapping[str, Any], names: frozenset[str], prefix: str) -> None:
    for name in values:
        if name not in names:
            raise VllmRefusal(
                400, f"Unknown parameter: '{prefix}{name}'.", "UnknownParameter", f"{prefix}{name}"
            )


def _strip_choice(choice: Json) -> Json:
    fields = {key: choice[key] for key in _CHOICE_KEYS if key in choice}
    for key in ("delta", "message"):
        if key in fields:
            fields[key] = {name: fields[key][name] for name in _MESSAGE_KEYS if name in fields[key]}
    return fields


def _strip_usage(usage: Json) -> Json:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return {
        **{name: usage[name] for name in _USAGE_KEYS},
        "prompt_tokens_details": {"cached_tokens": prompt.get("cached_tokens", 0), "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": completion.get("reasoning_tokens", 0),
            "audio_tokens": 0,
        },
    }
