"""The endpoint's routes beside the model calls, over plain HTTP: which models, which version, is it up, how
long is a prompt, what does a typed question read, what has the server counted.

Owns how vLLM's other routes are addressed and read; keeps no connection. Knows nothing of the house above it.
"""

import asyncio
import functools
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bot.errors import KeyRefused, ServerAway

QUICK_SECONDS = 2.0  # seconds a route may take while somebody waits for an answer

_TIMEOUT = httpx.Timeout(10, connect=5)


_UNSUPPORTED_STATUSES = {400, 404, 405, 422, 501}
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{.*\})? +([0-9.eE+]+)(?: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as `/v1/models` names it; `context` is its limit in tokens, None if the server does not tell."""

    name: str
    context: int | None


@dataclass(frozen=True, slots=True)
class TypedReadResult:
    """The answer to typed questions, None if there is none; `lacking`: asking again would change nothing."""

    answer: Mapping[str, Any] | None = None
    is_unsupported: bool = False


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """What the server has counted since it began, whoever asked; None: it has no such counter.

    `requests` are those it ended itself. `steps` of diffusion hold the commit of each canvas, `committed` are
    tokens of whole canvases, with the tail behind the end.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    requests: int | None = None
    steps: int | None = None
    committed: int | None = None


async def fetch_models(url: str, api_key: str | None = None) -> tuple[ServedModel, ...]:
    """The models served at `url` (which ends with `/v1`); raises ServerAway or KeyRefused."""
    response = await _get(f"{url}/models", api_key)
    if response.status_code in {401, 403}:
        raise KeyRefused(f"The endpoint at {url} wants {'another' if api_key else 'a'} key.")
    if response.status_code >= 500:
        raise ServerAway(f"The endpoint at {url} is not ready (HTTP {response.status_code}).")
    listed = _parse_json(response)
    if not response.is_success or not isinstance(listed.get("data"), list):
        raise ServerAway(f"What answers at {url} is no model endpoint: it has no {url}/models.")
    return parse_models(listed)


def parse_models(body: Mapping[str, Any]) -> tuple[ServedModel, ...]:
    """The models that an answer of `/v1/models` names; none where it is something else."""
    rows = body.get("data")
    rows = rows if isinstance(rows, list) else []
    return tuple(
        _parse_model(row) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)
    )


async def fetch_version(url: str) -> str | None:
    """The release of the vLLM behind `url`, such as `0.33.0`; None if the server does not tell."""
    found = _parse_json(await _get(f"{_server_root(url)}/version")).get("version")
    if isinstance(found, str):
        return found
    return None


async def check_health(url: str) -> bool:
    """Whether the endpoint is up; a server without that route counts as up when it answers at all."""
    try:
        return (await _get(f"{_server_root(url)}/health")).status_code < 500
    except ServerAway:
        return False


async def fetch_counters(url: str, api_key: str | None = None) -> ServerCounters | None:
    """The server's own counters, over all its engines; None where there is no such page or it cannot be read."""
    try:
        page = await _get(f"{_server_root(url)}/metrics", api_key)
    except ServerAway:
        return None
    sums = parse_samples(page.text) if page.is_success else {}
    found = ServerCounters(
        sums.get("prompt_tokens_total"),
        sums.get("prompt_tokens_cached_total"),
        sums.get("generation_tokens_total"),
        sums.get("request_success_total"),
        sums.get("diffusion_num_denoising_steps_total"),
        sums.get("diffusion_num_committed_tokens_total"),
    )
    if found == ServerCounters():
        return None
    return found


def parse_samples(page: str) -> Mapping[str, int]:
    """The numbers of a `/metrics` page under vLLM's names without `vllm:`, each summed over engines and
    labels.
    """
    sums: dict[str, int] = defaultdict(int)
    for name, value in _SAMPLE.findall(page):
        sums[name] += _parse_whole(value)
    return sums


async def tokenize(url: str, api_key: str | None, body: Mapping[str, Any]) -> int | None:
    """The exact tokens of a prompt: of the messages, tools and chat_template_kwargs in `body`, as a call
    sends them.

    None where the route is missing, fails, or takes longer than QUICKLY.
    """
    counted = _parse_json(await _post_quickly(f"{_server_root(url)}/tokenize", api_key, body)).get("count")
    if isinstance(counted, int) and not isinstance(counted, bool) and counted > 0:
        return counted
    return None


async def ask_typed_questions(url: str, api_key: str | None, body: Mapping[str, Any]) -> TypedReadResult:
    """What typed questions read; see Read. Never raises for what the endpoint does, nor takes longer than
    QUICKLY.
    """
    response = await _post_quickly(f"{url}/systemone", api_key, body)
    if response is None:
        return TypedReadResult()
    return TypedReadResult(
        _parse_json(response) if response.is_success else None,
        is_unsupported=response.status_code in _UNSUPPORTED_STATUSES,
    )


async def _post_quickly(url: str, api_key: str | None, body: Mapping[str, Any]) -> httpx.Response | None:
    try:
        async with asyncio.timeout(QUICK_SECONDS):
            return await _send("POST", url, api_key, body)
    except (TimeoutError, ServerAway):
        return None


async def _get(url: str, api_key: str | None = None) -> httpx.Response:
    return await _send("GET", url, api_key)


async def _send(
    method: str, url: str, api_key: str | None, body: Mapping[str, Any] | None = None
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    # Reading the certificates takes longer than the call: once is enough, and not at all where nothing is
    # encrypted.
    verify = False if url.startswith("http://") else _certificates()
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=verify) as client:
            return await client.request(method, url, headers=headers, json=body)
    except httpx.TimeoutException:
        raise ServerAway(f"Nothing answers at {url} in time.") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerAway(f"Nothing answers at {url} ({error or type(error).__name__}).") from None


@functools.cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def _parse_whole(sample: str) -> int:
    try:
        return int(float(sample))
    except (ValueError, OverflowError):
        return 0


def _server_root(url: str) -> str:
    return url.removesuffix("/v1")


def _parse_json(response: httpx.Response | None) -> Mapping[str, Any]:
    if response is None:
        return {}
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, dict):
        return body
    return {}


def _parse_model(row: Mapping[str, Any]) -> ServedModel:
    context = row.get("max_model_len")
    return ServedModel(row["id"], context if isinstance(context, int) else None)
