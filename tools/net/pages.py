"""Reads a page of the public web: checks the address before and after the lookup, opens what was checked.

Owns one HTTP exchange a hop, without proxies, cookies or credentials. Which addresses and ports are allowed,
and how names are looked up, are arguments. Failures are ToolErrors that say what happened and nothing about
the network.
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

from tools.base import ToolError
from tools.net.addresses import AddressFilter, Resolver, is_public, resolve_host
from tools.net.bodies import ACCEPT_ENCODING, parse_content_type, read_body
from tools.net.policy import USER_AGENT, NetworkPolicy, describe_connection_error, port_of
from tools.net.readable import extract_readable
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

TIMEOUT_SECONDS = 10.0  # for everything: lookups, redirects, download, extraction
MAX_REDIRECTS = 5
PAGE_PORTS = frozenset({80, 443, 8080, 8443})
MAX_PAGE_BYTES = 2 * 1024 * 1024  # unpacked; the rest of a page is left unread
CONNECT_TIMEOUT_SECONDS = 3.0  # for one address
EXTRACT_LIMITS = SandboxLimits(wall_seconds=4, cpu_seconds=3, memory_bytes=512 * 1024 * 1024)
HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; {USER_AGENT})",
    "Accept": "text/html,text/plain,application/json,application/xml;q=0.9,*/*;q=0.1",
    "Accept-Encoding": ACCEPT_ENCODING,
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read: its final address, title and text.

    `total_chars` is the length of the whole text; `is_complete` is False when the page was longer than
    MAX_PAGE_BYTES.
    """

    address: str
    title: str
    text: str
    total_chars: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _RawPage:
    url: httpx.URL
    kind: str
    charset: str
    body: bytes


@dataclass(frozen=True, slots=True)
class PageReader:
    """Reads pages from the addresses that `allow` accepts, on `ports`.

    Hosts in `private` (`name:port`) are accepted whatever their address.
    TLS is verified with `ssl_context`, else with the usual root certificates.
    """

    allow: AddressFilter = is_public
    resolve: Resolver = resolve_host
    ports: frozenset[int] = PAGE_PORTS
    ssl_context: ssl.SSLContext | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    extract_limits: SandboxLimits = EXTRACT_LIMITS
    private: frozenset[str] = frozenset()

    async def read(self, address: str, max_chars: int) -> Page:
        """The page at `address`, its text cut to `max_chars`. Raises ToolError."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                raw = await self._fetch(self._parse_url(address))
                extracted = await extract_page(
                    raw.body, raw.kind, raw.charset, max_chars, self.extract_limits
                )
        except TimeoutError:
            raise ToolError(
                f"The page took longer than {self.timeout_seconds:g} seconds and was given up."
            ) from None
        except (httpx.HTTPError, OSError) as error:
            raise ToolError(f"The page could not be read: {describe_connection_error(error)}.") from error
        return Page(
            address=str(raw.url),
            title=extracted["title"],
            text=extracted["text"],
            total_chars=extracted["length"],
            is_complete=len(raw.body) < MAX_PAGE_BYTES,
        )

    def _parse_url(self, address: str) -> httpx.URL:
        try:
            url = httpx.URL(address if "://" in address else f"https://{address}").copy_with(fragment=None)
        except (httpx.InvalidURL, ValueError) as error:
            raise ToolError(f"That is no web address: {address[:100]!r}.") from error
        if url.scheme not in ("http", "https") or not url.host or len(address) > 2000:
            raise ToolError(
                f"Only addresses that begin with http:// or https:// are read, not {address[:100]!r}."
            )
        if url.userinfo:
            raise ToolError("An address with a name or password in it is not opened.")
        if port_of(url) not in self.ports:
            raise ToolError(f"Port {port_of(url)} is not one of web pages, so it is not opened.")
        return url

    async def _fetch(self, url: httpx.URL) -> _RawPage:
        policy = NetworkPolicy(self.allow, self.resolve, self.private, self.ssl_context)
        async with await policy.create_transport() as transport:
            for _ in range(MAX_REDIRECTS + 1):
                request = httpx.Request("GET", url, headers=HEADERS)
                async with contextlib.aclosing(
                    await policy.send(transport, request, CONNECT_TIMEOUT_SECONDS)
                ) as response:
                    if not response.has_redirect_location:
                        return await _read_page(url, response)
                    url = self._parse_url(_redirect_target(url, response))
        raise ToolError(f"The page redirects more than {MAX_REDIRECTS} times.")


def _redirect_target(url: httpx.URL, response: httpx.Response) -> str:
    try:
        return str(url.join(response.headers["location"]))
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError("The page redirects to something that is no address.") from error


async def _read_page(url: httpx.URL, response: httpx.Response) -> _RawPage:
    if response.status_code >= 400:
        raise ToolError(f"The site answered {response.status_code} {response.reason_phrase}".strip() + ".")
    content_type, charset = parse_content_type(response.headers.get("content-type", ""))
    kind = _content_kind(content_type) if content_type else ""
    body = await read_body(response, MAX_PAGE_BYTES, "The page")
    if not kind and b"\0" in body[:1000]:
        raise ToolError("The page is a file of an unknown kind, not text.")
    return _RawPage(url, kind, charset, body)


def _content_kind(content_type: str) -> str:
    """How to read a content type: html or text. Raises ToolError for what is not text."""
    if content_type in ("text/html", "application/xhtml+xml"):
        return "html"
    if content_type.startswith("text/") or content_type.endswith(("json", "xml", "yaml", "javascript")):
        return "text"
    raise ToolError(f"The address leads to a file ({content_type[:60]}), not to a page of text.")


async def extract_page(
    body: bytes, kind: str, charset: str, max_chars: int, limits: SandboxLimits = EXTRACT_LIMITS
) -> dict[str, Any]:
    """The readable part, as `extract_readable` gives it, extracted in a process that can be killed.

    A page that keeps trafilatura busy too long is read without it. Raises ToolError.
    """
    options = {"kind": kind, "charset": charset, "characters": max_chars}
    for plainly in (False, True):
        with contextlib.suppress(SandboxStopped):
            extracted: dict[str, Any] = await run_in_sandbox(
                extract_readable, body, limits, **options, plainly=plainly
            )
            return extracted
    raise ToolError("The page is built so that its text cannot be found.")
