"""What may stand between a gateway and its PostgreSQL server: a connection that breaks, and a pooler."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SOCKET_NAME = ".s.PGSQL.5432"
COMMIT = b"COMMIT"
READY = b"Z\x00\x00\x00\x05I"  # for the next transaction
TERMINATE = b"X\x00\x00\x00\x04"


@dataclass
class BreakingConnections:
    """Passes everything on; `lose`: the next commit loses its connection, before or after it is done."""

    server: Path
    lose: Literal["request", "answer"] | None = None

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(str(self.server / SOCKET_NAME))
        async with close_at_end(server_writer), asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass_on(server_reader, writer, "answer"))
            await self._pass_on(reader, server_writer, "request")

    async def _pass_on(self, reader: StreamReader, writer: StreamWriter, kind: str) -> None:
        while data := await reader.read(65_536):
            if self.lose == kind and COMMIT in data:
                self.lose = None
                break
            writer.write(data)
        writer.close()


@dataclass
class TransactionPooler:
    """Gives each transaction of any client the same session, as PgBouncer does with pool_mode=transaction."""

    server: Path
    session: tuple[StreamReader, StreamWriter] | None = None
    greeting: bytes = b""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        startup = await reader.read(65_536)
        if self.session is not None:
            await self._serve_client(reader, writer)
            return
        self.session = await asyncio.open_unix_connection(str(self.server / SOCKET_NAME))
        async with close_at_end(self.session[1]):
            self.session[1].write(startup)
            self.greeting = await self._read_answer()
            await self._serve_client(reader, writer)

    async def _serve_client(self, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(self.greeting)
        while (data := await reader.read(65_536)) and data != TERMINATE:
            async with self.turn:
                await self._run_transaction(data, reader, writer)

    async def _run_transaction(self, data: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        assert self.session is not None
        while True:
            self.session[1].write(data)
            answer = await self._read_answer()
            writer.write(answer)
            if answer.endswith(READY):
                return
            data = await reader.read(65_536)

    async def _read_answer(self) -> bytes:
        """Everything up to the end of the answer to one request, whatever state the transaction is in."""
        assert self.session is not None
        answer = b""
        while answer[-6:-1] != READY[:5]:
            data = await self.session[0].read(65_536)
            assert data, answer
            answer += data
        return answer


@contextlib.asynccontextmanager
async def listen(
    folder: Path, serve: Callable[[StreamReader, StreamWriter], Coroutine[None, None, None]]
) -> AsyncIterator[str]:
    """Serve in this folder; gives what takes the place of the server's folder in a URL."""
    folder.mkdir()
    async with asyncio.TaskGroup() as tasks:
        serving: list[asyncio.Task[None]] = []

        async def serve_and_close(reader: StreamReader, writer: StreamWriter) -> None:
            async with close_at_end(writer):
                await serve(reader, writer)

        server = await asyncio.start_unix_server(
            lambda reader, writer: serving.append(tasks.create_task(serve_and_close(reader, writer))),
            folder / SOCKET_NAME,
        )
        try:
            yield str(folder)
        finally:
            server.close()
            (folder / SOCKET_NAME).unlink()
            folder.rmdir()
            for task in serving:
                task.cancel()


@contextlib.asynccontextmanager
async def close_at_end(writer: StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
