"""The endpoint's routes beside the model calls, over plain HTTP: which models, which version, is it up.

Owns how vLLM's other routes are addressed and read; keeps no connection. Knows nothing of the house above it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bot.errors import KeyRefused, ServerAway

_PATIENCE = httpx.Timeout(10, connect=5)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as `/v1/models` names it; `context` is its limit in tokens, None if the server does not tell."""

    name: str
    context: int | None


async def models(url: str, api_key: str | None = None) -> tuple[ServedModel, ...]:
    """The models served at `url` (which ends with `/v1`); raises ServerAway or KeyRefused."""
    response = await _get(f"{url}/models", api_key)
    if response.status_code in {401, 403}:
        raise KeyRefused(f"The endpoint at {url} wants {'another' if api_key else 'a'} key.")
    if response.status_code >= 500:
        raise ServerAway(f"The endpoint at {url} is not ready (HTTP {response.status_code}).")
    rows = _json(response).get("data")
    if not response.is_success or not isinstance(rows, list):
        raise ServerAway(f"What answers at {url} is no model endpoint: it has no {url}/models.")
    return tuple(_served(row) for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str))


async def version(url: str) -> str | None:
    """The release of the vLLM behind `url`, such as `0.33.0`; None if the server does not tell."""
    found = _json(await _get(f"{_root(url)}/version")).get("version")
    return found if isinstance(found, str) else None


async def health(url: str) -> bool:
    """Whether the endpoint is up; a server without that route counts as up when it answers at all."""
    try:
        return (await _get(f"{_root(url)}/health")).status_code < 500
    except ServerAway:
        return False


async def _get(address: str, api_key: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx.AsyncClient(timeout=_PATIENCE, trust_env=False) as client:
            return await client.get(address, headers=headers)
    except httpx.TimeoutException:
        raise ServerAway(f"Nothing answers at {address} in time.") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerAway(f"Nothing answers at {address} ({error or type(error).__name__}).") from None


def _root(url: str) -> str:
    return url.removesuffix("/v1")


def _json(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _served(row: Mapping[str, Any]) -> ServedModel:
    context = row.get("max_model_len")
    return ServedModel(row["id"], context if isinstance(context, int) else None)
