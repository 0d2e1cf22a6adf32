"""Calls one service over HTTP: its own hosts, its credentials, and one exchange with redirects.

Every host is checked again at each hop, secrets go to the service's own hosts only, and no proxies or cookies
are used. Failures are ToolErrors for the model.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import httpx

from tools.base import File, ToolError
from tools.net.bodies import ACCEPT_ENCODING, read_body
from tools.net.policy import USER_AGENT, NetworkPolicy, describe_connection_error, host_of

TIMEOUT_SECONDS = 20.0  # for everything: lookups, redirects, the response
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 2 * 1024 * 1024  # unpacked; the rest of a response is left unread
MAX_REDIRECTS = 5
MAX_URL_CHARS = 8000
SAFE_METHODS = frozenset({"GET", "HEAD"})
MASK = "•••"
MIN_MASKED_CHARS = 4  # of a secret that is masked where it comes back; shorter ones occur in any text
HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Encoding": ACCEPT_ENCODING,
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a service authenticates us by.

    `headers` (`Authorization: Bearer …` is one), `query` parameters, `cookies`, and `basic` as
    `name:password`.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    basic: str | None = field(default=None, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)

    def auth_headers(self) -> dict[str, str]:
        """All headers that carry a secret."""
        headers = dict(self.headers)
        if self.basic is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self.basic.encode()).decode()}"
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        return headers

    def secret_texts(self) -> list[str]:
        """Every text that must not be shown."""
        secrets = [*self.auth_headers().values(), *self.query.values(), *self.cookies.values()]
        secrets += [text.rpartition(" ")[2] for text in secrets]  # `Bearer` is no secret, what follows it is
        if self.basic:
            secrets += [self.basic, self.basic.partition(":")[2]]
        return secrets

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.basic or self.cookies)


@dataclass(frozen=True, slots=True)
class FixedArgument:
    """The value that an argument always has, by the service's name for it.

    `shown` is how people read it: there each of the `secrets` stands by its name.
    """

    name: str
    text: str = field(repr=False)
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)


NO_CREDENTIALS = Credentials()
PUBLIC_ONLY = NetworkPolicy()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; `headers` are those of the call, without secrets."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response as it came; `is_complete` is False when there was more than what is read of one."""

    address: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_complete: bool


@dataclass(frozen=True, slots=True)
class HttpService:
    """A service by its name.

    `hosts` (`name` or `name:port`) are those an admin has confirmed as its own. `fixed` are the arguments
    that an admin has set for all calls, by name.
    """

    name: str
    hosts: frozenset[str]
    credentials: Credentials = NO_CREDENTIALS
    policy: NetworkPolicy = PUBLIC_ONLY
    timeout_seconds: float = TIMEOUT_SECONDS
    fixed: Mapping[str, FixedArgument] = field(default_factory=dict)

    @property
    def has_secrets(self) -> bool:
        """Whether calls carry a secret."""
        return bool(self.credentials) or any(argument.secrets for argument in self.fixed.values())

    async def send(self, http_request: HttpRequest, max_bytes: int = MAX_RESPONSE_BYTES) -> HttpResponse:
        """The response to a request, whatever its status, with at most `max_bytes` of body.

        Raises ToolError when there is none.
        """
        unsure = ""
        if http_request.method not in SAFE_METHODS:
            unsure = " Whether it was done is not known."
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self._exchange(http_request, max_bytes)
        except TimeoutError:
            raise ToolError(
                f"{self.name} took longer than {self.timeout_seconds:g} seconds and was given up.{unsure}"
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ToolError(f"{self.name} could not be asked: {describe_connection_error(error)}.") from error
        except (httpx.HTTPError, OSError) as error:
            raise ToolError(
                f"{self.name} could not be heard: {describe_connection_error(error)}.{unsure}"
            ) from error

    def mask_secrets(self, text: str) -> str:
        """The text without any secret that the service may have repeated."""
        return mask_texts(text, self._list_secrets())

    def mask_file(self, file: File) -> File:
        """The file without any such secret."""
        return mask_file(file, self._list_secrets())

    def _list_secrets(self) -> list[str]:
        secrets = self.credentials.secret_texts()
        for argument in self.fixed.values():
            secrets += argument.secrets
        return secrets

    async def _exchange(self, http_request: HttpRequest, max_bytes: int) -> HttpResponse:
        url = parse_url(http_request.url)
        async with await self.policy.create_transport() as transport:
            for _ in range(MAX_REDIRECTS + 1):
                is_own_host = host_of(url) in self.hosts
                policy = self.policy
                if not is_own_host:
                    # An address of our own network that an admin allowed is not open to redirects of others.
                    policy = replace(policy, private=frozenset())
                request = self._build_request(http_request, url, is_own_host)
                async with contextlib.aclosing(
                    await policy.send(transport, request, CONNECT_TIMEOUT_SECONDS)
                ) as response:
                    if not response.has_redirect_location:
                        return await _read_response(http_request, url, response, max_bytes)
                    http_request, url = self._follow_redirect(http_request, url, response)
        raise ToolError(f"{self.name} redirects more than {MAX_REDIRECTS} times.")

    def _build_request(self, http_request: HttpRequest, url: httpx.URL, is_own_host: bool) -> httpx.Request:
        if not is_own_host:
            return httpx.Request(http_request.method, url, headers=HEADERS)
        missing = {name: text for name, text in self.credentials.query.items() if name not in url.params}
        pieces = [f"{quote(name, safe='')}={quote(text, safe='')}".encode() for name, text in missing.items()]
        if pieces and url.query:
            pieces.insert(0, url.query)
        if pieces:
            url = url.copy_with(query=b"&".join(pieces))
        return httpx.Request(
            http_request.method,
            url,
            headers={**HEADERS, **http_request.headers, **self.credentials.auth_headers()},
            content=http_request.body,
        )

    def _follow_redirect(
        self, http_request: HttpRequest, url: httpx.URL, response: httpx.Response
    ) -> tuple[HttpRequest, httpx.URL]:
        """The next request and its address.

        Only safe requests go to other hosts, and never from https to http. Raises ToolError.
        """
        try:
            target = parse_url(str(url.join(response.headers["location"])))
        except (httpx.InvalidURL, ValueError) as error:
            raise ToolError(f"{self.name} redirects to something that is no address.") from error
        if url.scheme == "https" and target.scheme == "http":
            raise ToolError(
                f"{self.name} redirects to an address that is not encrypted; it was not followed."
            )
        if http_request.method in SAFE_METHODS:
            return http_request, target
        is_same_origin = (host_of(url), url.scheme) == (host_of(target), target.scheme)
        if is_same_origin and response.status_code in (307, 308):
            return http_request, target
        if is_same_origin and response.status_code == 303:
            return HttpRequest("GET", str(target), http_request.headers), target
        raise ToolError(
            f"{self.name} answered {response.status_code}, a redirect to {host_of(target)}; "
            "it was not followed, since the call changes something."
        )


def mask_texts(text: str, secrets: Iterable[str]) -> str:
    """The text without any of the secrets, however they are spelled; very short ones stay."""
    for secret in _list_spellings(secrets):
        text = text.replace(secret, MASK)
    return text


def mask_file(file: File, secrets: Iterable[str]) -> File:
    """The file without any of the secrets, in its name or in its bytes as they are."""
    data = file.data
    for secret in _list_spellings(secrets):
        data = data.replace(secret.encode(), MASK.encode())
    return replace(file, name=mask_texts(file.name, secrets), data=data)


def _list_spellings(secrets: Iterable[str]) -> list[str]:
    """Secrets as they may come back, plain, percent-encoded and in JSON, longest first."""
    spellings = {
        spelling for text in secrets for spelling in (text, quote(text, safe=""), json.dumps(text)[1:-1])
    }
    return sorted((text for text in spellings if len(text) >= MIN_MASKED_CHARS), key=len, reverse=True)


def parse_url(address: str) -> httpx.URL:
    """An address that may be called, without its fragment. Raises ToolError."""
    if len(address) > MAX_URL_CHARS:
        raise ToolError(f"The address would be longer than {MAX_URL_CHARS} characters; send less of it.")
    try:
        url = httpx.URL(address).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise ToolError(f"That is no web address: {address[:100]!r}.") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(
            f"Only addresses that begin with http:// or https:// can be asked, not {address[:100]!r}."
        )
    if url.userinfo:
        raise ToolError("An address with a name or password in it is not asked.")
    return url


async def _read_response(
    http_request: HttpRequest, url: httpx.URL, response: httpx.Response, max_bytes: int
) -> HttpResponse:
    body = b"" if http_request.method == "HEAD" else await read_body(response, max_bytes)
    reason = " ".join(response.reason_phrase.split())[:60]
    return HttpResponse(
        str(url), response.status_code, reason, dict(response.headers), body, len(body) < max_bytes
    )
