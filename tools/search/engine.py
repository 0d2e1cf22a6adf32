"""What a search engine is to the tool: a question in, hits out. Owns the HTTP exchange that engines share.

The engine's address is the operator's own choice and may be private. Nothing that it answers is trusted: no
redirect is followed, and no more than MAX_ANSWER_BYTES are read.
"""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from tools.base import ToolError
from tools.net.bodies import ACCEPT_ENCODING, read_body
from tools.net.policy import USER_AGENT, load_certificates

MAX_ANSWER_BYTES = 512 * 1024
NOT_AVAILABLE = "Search is not available now: {}. Say so, and answer without it."


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found, as the engine describes it; `date` is empty where it gives none."""

    title: str
    address: str
    excerpt: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What an engine found; `is_partial`: sources that it asks did not respond."""

    hits: tuple[Hit, ...]
    is_partial: bool = False


class SearchEngine(Protocol):
    """A search engine. The caller limits the time."""

    async def search(self, question: str, *, newest: bool) -> EngineAnswer:
        """Find pages, best first; `newest`: of the last month. Raises SearchRefused."""
        ...


class SearchRefused(ToolError):
    """The engine gave no hits; `status` is what it answered, `reason` what happened, in a few words."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(NOT_AVAILABLE.format(reason))
        self.reason = reason
        self.status = status


async def fetch_json(
    address: str, params: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object at `address`. Raises SearchRefused for all else."""
    all_headers = {
        "User-Agent": USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": ACCEPT_ENCODING,
        **(headers or {}),
    }
    verify: ssl.SSLContext | bool = False  # without encryption there is nothing to check
    if not address.startswith("http://"):
        verify = await load_certificates()
    try:
        async with (
            httpx.AsyncClient(verify=verify, trust_env=False, timeout=None) as client,  # noqa: S113 the caller limits it
            client.stream("GET", address, params=dict(params), headers=all_headers) as response,
        ):
            body = await read_body(response, MAX_ANSWER_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise SearchRefused("the search engine does not answer") from error
    except ToolError as error:
        raise SearchRefused("the search engine's answer cannot be read") from error
    if response.status_code != httpx.codes.OK:
        reason = f"the search engine answered {response.status_code}"
        raise SearchRefused(reason, response.status_code)
    return _parse_object(body)


def _parse_object(body: bytes) -> dict[str, Any]:
    if len(body) == MAX_ANSWER_BYTES:
        raise SearchRefused("the search engine's answer is too long")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SearchRefused("the search engine answered with a page instead of results") from error
    if not isinstance(content, dict):
        raise SearchRefused("the search engine answered something else than results")
    return content


def read_hits(results: object, names: Sequence[str]) -> tuple[Hit, ...]:
    """The hits of a list; `names` are those of title, address, excerpt and date in it."""
    entries = results if isinstance(results, list) else []
    return tuple(
        Hit(*(to_text(entry.get(name)) for name in names)) for entry in entries if isinstance(entry, dict)
    )


def to_text(value: object) -> str:
    """A string as it is; empty for every other value."""
    if isinstance(value, str):
        return value
    return ""
