"""Serves an ASGI app inside the running event loop; owns the socket and the server task.

Used by the simulators, the demo page and the monitoring pages. Leaves signals to the caller.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_GRACE_SECONDS = 1
_LOOK_SECONDS = 0.005  # between two looks whether all answers are sent


class _Server(uvicorn.Server):
    """A server that leaves SIGINT and SIGTERM to its process and signals when it is ready.

    It stops as soon as `stop` is called and nothing is open, where uvicorn's looks ten times a second.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Renew the header `Date` each second until stopped: uvicorn does it at each tenth tick."""
        for tick in itertools.count(step=10):
            if await self.on_tick(tick):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close every connection once its answer is sent; after the grace, cancel what still answers."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # the connections that waited for a request are closed now
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110  # no event tells
                    await asyncio.sleep(_LOOK_SECONDS)
        for task in self.server_state.tasks:
            task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class BoundedProtocol(H11Protocol):
    """Ends connections that are too many, and those that bring no whole request in time.

    Each is an open file, of which a process may have few: without any left it cannot reach Telegram.
    """

    max_connections = 200
    request_seconds = 20.0
    _checked_cycle: RequestResponseCycle | None = None
    _next_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
        else:
            self._next_check = self.loop.call_later(self.request_seconds, self._check_progress)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
        super().connection_lost(exc)

    def _check_progress(self) -> None:
        """End the connection unless a request is being answered, or another one was since the last check."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.cycle is self._checked_cycle and not is_answering:
            self.transport.abort()
            return
        self._checked_cycle = self.cycle
        self._next_check = self.loop.call_later(self.request_seconds, self._check_progress)


@contextlib.asynccontextmanager
async def serve(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    keep_alive_seconds: int = 5,
    protocol: type[H11Protocol] = H11Protocol,
) -> AsyncIterator[str]:
    """Serve `app` while the block runs; yields its base URL, such as `http://127.0.0.1:40123`.

    Port 0 takes a free one. On leaving, open requests get a second before their tasks are cancelled.
    A connection is closed `keep_alive_seconds` after its last request; BoundedProtocol as `protocol` closes
    those that never bring one, too.
    """
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",  # nothing here speaks WebSocket, whatever libraries are installed
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=keep_alive_seconds,
    )
    server = _Server(config)
    is_ipv6 = ":" in host
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=512) as listener:
        # Without this an answer waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve(sockets=[listener]), name="serve")
            try:
                await server.ready.wait()
                yield f"http://{f'[{host}]' if is_ipv6 else host}:{listener.getsockname()[1]}"
            finally:
                server.stop()
                # Also after an error in the block: a cancelled server leaves its listener in the loop.
                await asyncio.wait({serving})
