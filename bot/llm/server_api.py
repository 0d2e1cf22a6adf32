"""The endpoint's routes that no turn waits for, over plain HTTP.

Models, version, health and the server's counters. Owns how these routes of vLLM are addressed and parsed.
Keeps no connection and knows nothing of the layers above.
"""

import functools
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bot.errors import KeyRefused, ServerAway

_TIMEOUT = httpx.Timeout(10, connect=5)
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{.*\})? +([0-9.eE+]+)(?: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as `/v1/models` lists it; `context` is its limit in tokens, None if that is not listed."""

    name: str
    context: int | None


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """What the server has counted since it started, over all its clients; None: it has no such counter.

    requests: those it ended itself.
    steps: of diffusion, the commit of each canvas included.
    committed: tokens of whole canvases, with those after the end of a reply.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    requests: int | None = None
    steps: int | None = None
    committed: int | None = None


async def fetch_models(url: str, api_key: str | None = None) -> tuple[ServedModel, ...]:
    """The models served at `url` (which ends with `/v1`); raises ServerAway or KeyRefused."""
    return parse_models(await fetch_model_list(url, api_key))


async def fetch_model_list(url: str, api_key: str | None = None) -> Mapping[str, Any]:
    """The list of the models at `url` as the server sends it; raises as `fetch_models`."""
    response = await _get(f"{url}/models", api_key)
    if response.status_code in {401, 403}:
        article = "another" if api_key else "a"
        raise KeyRefused(f"The endpoint at {url} wants {article} key.")
    if response.status_code >= 500:
        raise ServerAway(f"The endpoint at {url} is not ready (HTTP {response.status_code}).")
    listed = _parse_json(response)
    if not response.is_success or not isinstance(listed.get("data"), list):
        raise ServerAway(f"What answers at {url} is no model endpoint: it has no {url}/models.")
    return listed


def parse_models(body: Mapping[str, Any]) -> tuple[ServedModel, ...]:
    """The models that a response of `/v1/models` lists; none where it is something else."""
    rows = body.get("data")
    if not isinstance(rows, list):
        return ()
    return tuple(
        _parse_model(row) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)
    )


async def fetch_version(url: str) -> str | None:
    """The release of the vLLM behind `url`, such as `0.33.0`; None if the server does not report it."""
    version = _parse_json(await _get(f"{find_server_root(url)}/version")).get("version")
    if isinstance(version, str):
        return version
    return None


async def check_health(url: str) -> bool:
    """Whether the endpoint is up; a server without this route counts as up if it answers at all.

    A vllm-router is up while one of its servers is, though its `/health` fails as soon as one is not.
    """
    root = find_server_root(url)
    try:
        if (await _get(f"{root}/health")).status_code < 500:
            return True
        healthy = _parse_json(await _get(f"{root}/readiness")).get("healthy_workers")
    except ServerAway:
        return False
    return isinstance(healthy, int) and healthy > 0


async def fetch_counters(url: str, api_key: str | None = None) -> ServerCounters | None:
    """The server's counters, summed over its engines; None if it has no such page or none of them."""
    try:
        page = await _get(f"{find_server_root(url)}/metrics", api_key)
    except ServerAway:
        return None
    if not page.is_success:
        return None
    sums = parse_samples(page.text)
    counters = ServerCounters(
        prompt_tokens=sums.get("prompt_tokens_total"),
        cached_tokens=sums.get("prompt_tokens_cached_total"),
        generated_tokens=sums.get("generation_tokens_total"),
        requests=sums.get("request_success_total"),
        steps=sums.get("diffusion_num_denoising_steps_total"),
        committed=sums.get("diffusion_num_committed_tokens_total"),
    )
    if counters == ServerCounters():
        return None
    return counters


def parse_samples(page: str) -> Mapping[str, int]:
    """The samples of a `/metrics` page by vLLM's names without `vllm:`, summed over engines and labels."""
    sums: dict[str, int] = defaultdict(int)
    for name, value in _SAMPLE.findall(page):
        sums[name] += _parse_whole(value)
    return sums


async def _get(url: str, api_key: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    # Loading the certificates takes longer than the call: once is enough, and not at all without encryption.
    verify = False if url.startswith("http://") else _certificates()
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=verify) as client:
            return await client.get(url, headers=headers)
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


def find_server_root(url: str) -> str:
    """The address of the server whose models are at `url`."""
    return url.removesuffix("/v1")


def _parse_json(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, dict):
        return body
    return {}


def _parse_model(row: Mapping[str, Any]) -> ServedModel:
    context = row.get("max_model_len")
    if not isinstance(context, int):
        context = None
    return ServedModel(row["id"], context)
