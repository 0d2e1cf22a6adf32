"""A small web site on loopback that answers with given bytes, on any number of addresses."""

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from tools.net.addresses import IPAddress
from tools.net.pages import EXTRACT_LIMITS, PageReader

# A slow machine reads the same text: how long that may take is for tests that say so.
PATIENCE_SECONDS = 300.0
PATIENT_LIMITS = replace(EXTRACT_LIMITS, wall_seconds=PATIENCE_SECONDS, cpu_seconds=100)


def build_response(
    body: bytes | str, media_type: str | None = "text/html", status: str = "200 OK", **headers: str
) -> bytes:
    """A whole HTTP response; underscores in header names stand for dashes."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}"]
    if media_type is not None:
        lines.append(f"Content-Type: {media_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def gzip_response(body: bytes) -> bytes:
    return build_response(gzip.compress(body), content_encoding="gzip")


@dataclass
class LocalWebSite:
    """`pages` are responses by path; `requests` pairs each request with the address it came to."""

    pages: dict[str, bytes]
    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    sni_names: list[str | None] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append((writer.get_extra_info("sockname")[0], request))
            page = self.pages[request.split()[1]]
            writer.write(page)
            await writer.drain()
            if not page:
                await reader.read()  # silent until the reader gives up
        writer.close()

    def page_reader(
        self, addresses: dict[str, list[str]], *allowed: str, ssl_context: ssl.SSLContext | None = None
    ) -> PageReader:
        """A reader that knows these names and allows these addresses."""

        async def resolve(host: str, port: int) -> list[str]:
            if host not in addresses:
                raise OSError("unknown")
            return addresses[host]

        def allow(address: IPAddress) -> bool:
            return address in {ip_address(address_text) for address_text in allowed}

        return PageReader(
            allow, resolve, frozenset({self.port}), ssl_context, PATIENCE_SECONDS, PATIENT_LIMITS
        )


@contextlib.asynccontextmanager
async def running_site(
    pages: dict[str, bytes], *hosts: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[LocalWebSite]:
    """Serve `pages` while the block runs, on the same port of every host (127.0.0.1 when none is named)."""
    site = LocalWebSite(pages)
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: site.sni_names.append(name)
    async with contextlib.AsyncExitStack() as stack:
        for host in hosts or ("127.0.0.1",):
            server = await asyncio.start_server(site.handle, host, site.port, ssl=tls)
            await stack.enter_async_context(server)
            site.port = server.sockets[0].getsockname()[1]
        yield site
        for writer in site.writers:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
