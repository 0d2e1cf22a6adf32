"""Speaks to one service over HTTP: which hosts are its own, what it is shown to know us, and how it is asked.

Owns one exchange with its redirects: every host is judged anew, secrets go to the service's own hosts only,
and no proxies or cookies are used. Failures are ToolErrors for the model.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import httpx

from tools.base import ToolError
from tools.net.bodies import ENCODINGS, read_body
from tools.net.policy import Reach, host_of, why_broken

SECONDS = 20.0  # for everything: lookups, redirects, the answer
CONNECTING = 10.0
BYTES = 2 * 1024 * 1024  # of an answer, unpacked; what is beyond is left unread
REDIRECTS = 5
LONGEST = 8000  # characters of an address
SAFE = frozenset({"GET", "HEAD"})
MASK = "•••"
LEAST = 4  # characters of a secret that is masked where it comes back; a shorter one is in any text
HEADERS = {
    "User-Agent": "Canvasgram/0.1",
    "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
    "Accept-Encoding": ENCODINGS,
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a service knows us by: headers (`Authorization: Bearer …` is one), pieces of the query,
    `name:password`.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    basic: str | None = field(default=None, repr=False)

    def shown(self) -> dict[str, str]:
        """All headers that carry a secret."""
        if self.basic is None:
            return dict(self.headers)
        return {**self.headers, "Authorization": f"Basic {base64.b64encode(self.basic.encode()).decode()}"}

    def texts(self) -> list[str]:
        """Every text that must not be told, the longest first."""
        whole = [*self.shown().values(), *self.query.values()]
        keys = [text.rpartition(" ")[2] for text in whole]  # `Bearer` is no secret, what follows it is
        named = [self.basic, self.basic.partition(":")[2]] if self.basic else []
        said = [*whole, *keys, *named]
        spelt = {each for text in said for each in (text, quote(text, safe=""), json.dumps(text)[1:-1])}
        return sorted((each for each in spelt if len(each) >= LEAST), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.basic)


NONE = Secrets()
PUBLIC = Reach()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `headers` are of the call, without secrets."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, as it came; `whole` is False when there was more than what is read of an answer."""

    address: str
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    whole: bool


@dataclass(frozen=True, slots=True)
class Service:
    """A service by its name, with `hosts` (`name` or `name:port`) an admin has confirmed to be its own."""

    name: str
    hosts: frozenset[str]
    secrets: Secrets = NONE
    reach: Reach = PUBLIC

    async def send(self, asked: Asked, most: int = BYTES) -> Answer:
        """The answer to a request, at most `most` bytes of it, whatever its status. Raises ToolError."""
        if asked.method in SAFE:
            unsure = ""
        else:
            unsure = " Whether it was done is not known."
        try:
            async with asyncio.timeout(SECONDS):
                return await self._exchange(asked, most)
        except TimeoutError:
            raise ToolError(
                f"{self.name} took longer than {SECONDS:g} seconds and was given up.{unsure}"
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ToolError(f"{self.name} could not be asked: {why_broken(error)}.") from error
        except (httpx.HTTPError, OSError) as error:
            raise ToolError(f"{self.name} could not be heard: {why_broken(error)}.{unsure}") from error

    def masked(self, text: str) -> str:
        """The text without any secret that the service may have repeated."""
        for secret in self.secrets.texts():
            text = text.replace(secret, MASK)
        return text

    async def _exchange(self, asked: Asked, most: int) -> Answer:
        url = checked(asked.url)
        async with await self.reach.transport() as transport:
            for _ in range(REDIRECTS + 1):
                own = host_of(url) in self.hosts
                # An address of our own network that an admin allowed is not for whoever redirects there.
                if own:
                    reach = self.reach
                else:
                    reach = replace(self.reach, private=frozenset())
                request = self._request(asked, url, own)
                async with contextlib.aclosing(await reach.ask(transport, request, CONNECTING)) as response:
                    if not response.has_redirect_location:
                        return await _taken(asked, url, response, most)
                    asked, url = self._onward(asked, url, response)
        raise ToolError(f"{self.name} redirects more than {REDIRECTS} times.")

    def _request(self, asked: Asked, url: httpx.URL, own: bool) -> httpx.Request:
        if not own:
            return httpx.Request(asked.method, url, headers=HEADERS)
        missing = {name: text for name, text in self.secrets.query.items() if name not in url.params}
        pieces = [f"{quote(name, safe='')}={quote(text, safe='')}".encode() for name, text in missing.items()]
        if pieces:
            url = url.copy_with(query=b"&".join([*([url.query] if url.query else []), *pieces]))
        return httpx.Request(
            asked.method,
            url,
            headers={**HEADERS, **asked.headers, **self.secrets.shown()},
            content=asked.body,
        )

    def _onward(self, asked: Asked, url: httpx.URL, response: httpx.Response) -> tuple[Asked, httpx.URL]:
        """What to ask next, and where. Only questions are asked of other hosts, and never less safely than
        before.
        """
        try:
            onward = checked(str(url.join(response.headers["location"])))
        except (httpx.InvalidURL, ValueError) as error:
            raise ToolError(f"{self.name} redirects to something that is no address.") from error
        if url.scheme == "https" and onward.scheme == "http":
            raise ToolError(
                f"{self.name} redirects to an address that is not encrypted; it was not followed."
            )
        if asked.method in SAFE:
            return asked, onward
        same = (host_of(url), url.scheme) == (host_of(onward), onward.scheme)
        if same and response.status_code in (307, 308):
            return asked, onward
        if same and response.status_code == 303:
            return Asked("GET", str(onward), asked.headers), onward
        raise ToolError(
            f"{self.name} answered {response.status_code}, a redirect to {host_of(onward)}; it was not followed, since "
            "the call changes something."
        )


def checked(address: str) -> httpx.URL:
    """An address that may be asked, without its fragment. Raises ToolError."""
    if len(address) > LONGEST:
        raise ToolError(f"The address would be longer than {LONGEST} characters; send less of it.")
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


async def _taken(asked: Asked, url: httpx.URL, response: httpx.Response, most: int) -> Answer:
    body = b"" if asked.method == "HEAD" else await read_body(response, most)
    reason = " ".join(response.reason_phrase.split())[:60]
    return Answer(str(url), response.status_code, reason, dict(response.headers), body, len(body) < most)
