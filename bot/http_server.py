"""Serves an ASGI app inside the running event loop; owns the socket and the server task.

Used by the simulators, the demo page and the monitoring pages. Leaves signals to the caller.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    """A server that leaves SIGINT and SIGTERM to its process and signals when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    grace_seconds: float = 1.0,
    keep_alive_seconds: int = 5,
) -> AsyncIterator[str]:
    """Serve `app` while the block runs; yields its base URL, such as `http://127.0.0.1:40123`.

    Port 0 takes a free one. On leaving, open requests get `grace_seconds` before their tasks are cancelled.
    A connection without a request is closed after `keep_alive_seconds`.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
    )
    server = _Server(config)
    with socket.create_server((host, port), backlog=512) as listener:
        # Without this an answer waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve(sockets=[listener]), name="serve")
            try:
                await server.ready.wait()
                yield f"http://{host}:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                # Also after an error in the block: a cancelled server leaves its listener in the loop.
                await asyncio.wait({serving})
