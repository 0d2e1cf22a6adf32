"""Which hosts may be contacted over HTTP, and how: looks a name up, checks it, opens what was checked.

Owns no connection; failures are ToolErrors that say what happened and nothing about the network.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import httpx

from tools.base import ToolError
from tools.net.addresses import AddressFilter, Resolver, are_all_allowed, is_public, resolve_host
from tools.threads import run_in_thread

MAX_TRIED_ADDRESSES = 3  # of one name, in the order of the lookup
USER_AGENT = "Canvasgram/0.1"
DEFAULT_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
ENCRYPTION_ADVICE = "register its https:// address, or name its host in TOOLS_PRIVATE_HOSTS if it is your own"


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """The addresses that `allow` accepts, and hosts (`name` or `name:port`) that are accepted by name.

    TLS is verified with `ssl_context`, else with the usual root certificates.
    """

    allow: AddressFilter = is_public
    resolve: Resolver = resolve_host
    private: frozenset[str] = frozenset()
    ssl_context: ssl.SSLContext | None = None

    def is_allowed_by_name(self, url: httpx.URL) -> bool:
        """Whether a host is accepted by its name, whatever its address."""
        host = _bracketed_host(url)
        return not self.private.isdisjoint({url.host, host, f"{host}:{port_of(url)}"})

    def can_expose_secrets(self, url: httpx.URL) -> bool:
        """Whether a secret that is sent there could be read on its way.

        Hosts accepted by name are the operator's own and do not count; see ENCRYPTION_ADVICE.
        """
        return url.scheme == "http" and not self.is_allowed_by_name(url)

    async def create_transport(self) -> httpx.AsyncHTTPTransport:
        """Connections without proxies or credentials of the environment; the caller closes the transport."""
        ssl_context = self.ssl_context
        if ssl_context is None:
            ssl_context = await load_certificates()
        return httpx.AsyncHTTPTransport(verify=ssl_context, trust_env=False)

    async def send(
        self, transport: httpx.AsyncHTTPTransport, request: httpx.Request, connect_seconds: float
    ) -> httpx.Response:
        """Send to one of the addresses the host has now, trying each for `connect_seconds`.

        Nothing is looked up again after the check. Raises ToolError for hosts that are not allowed, and what
        httpx raises.
        """
        url = request.url
        host = url.raw_host.decode().strip("[]")
        failure: Exception | None = None
        for ip in await self.resolve_allowed(host, port_of(url)):
            headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
            direct_request = httpx.Request(
                request.method,
                url.copy_with(host=ip),
                headers=[(b"Host", url.netloc), *headers],
                content=request.content,
                extensions={"sni_hostname": host, "timeout": {"connect": connect_seconds}},
            )
            try:
                return await transport.handle_async_request(direct_request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def resolve_allowed(self, host: str, port: int) -> list[str]:
        """The first few addresses of a host. Raises ToolError for hosts that are not allowed."""
        try:
            addresses = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"No host is called {host}.") from error
        is_named = bool({host, f"{host}:{port}"} & self.private)
        if not addresses or not (is_named or are_all_allowed(addresses, self.allow)):
            raise ToolError(f"{host} is not on the public internet, so it is not opened.")
        return addresses[:MAX_TRIED_ADDRESSES]


def port_of(url: httpx.URL) -> int:
    """The port of an address; its scheme is http or https."""
    return url.port or DEFAULT_PORTS[url.scheme]


def host_of(url: httpx.URL) -> str:
    """The host as admins confirm it: with its port where that is not the usual one."""
    host = _bracketed_host(url)
    if url.port:
        return f"{host}:{url.port}"
    return host


def _bracketed_host(url: httpx.URL) -> str:
    """The host as it stands in an address: IPv6 in brackets."""
    return f"[{url.host}]" if ":" in url.host else url.host


def describe_connection_error(error: Exception) -> str:
    """What happened to a connection, worded for the model."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "its certificate is not valid"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "the site does not answer"
    return "the site broke off or answered with something that is not HTTP"


async def load_certificates() -> ssl.SSLContext:
    """The certificates that every encrypted connection trusts; loading them takes 20 ms, once."""
    return await run_in_thread(_default_ssl_context)


@cache
def _default_ssl_context() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
