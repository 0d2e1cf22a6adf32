"""The HTTP side of the simulated Bot API: an ASGI app that reads a call, carries it out and answers.

Owns the log of calls; cuts connections through uvicorn's transport.
"""

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from bot.sim.telegram.events import BotApiCall
from bot.sim.telegram.methods import Method, build_method_table
from bot.sim.telegram.params import Json, Params, TelegramRefusal, read_params
from bot.sim.telegram.updates import PendingUpdate, encode_json
from bot.sim.telegram.world import World

_CALL_PATH = re.compile(r"/bot([^/]*)/([^/]*)/?")
_FILE_PATH = re.compile(r"/file/bot([^/]*)/files/(.+)")
_TOKEN = re.compile(r"[1-9][0-9]*:[A-Za-z0-9_-]+")
_MAX_LOGGED_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class BotApiResponse:
    """The HTTP response; `batch` are the updates in it."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    description: str = ""
    result: object = None
    updates: tuple[PendingUpdate, ...] = ()


class BotApiApp:
    """The ASGI app of one bot."""

    def __init__(self, world: World, token: str) -> None:
        self.calls: deque[BotApiCall] = deque(maxlen=_MAX_LOGGED_CALLS)
        self.world = world
        self._token = token
        self._methods = self.build_methods()
        self._connections: set[Connection] = set()

    def build_methods(self) -> Mapping[str, Method]:
        """The methods by name in lower case."""
        return build_method_table()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        arrived = time.monotonic()
        body = await _read_body(receive)
        path = scope["path"]
        if match := _FILE_PATH.fullmatch(path):
            await _write_response(send, self._file_response(match[1], match[2]))
        elif match := _CALL_PATH.fullmatch(path):
            line = Connection(receive, send)
            self._connections.add(line)
            try:
                await self._handle(line, _parse_call(match[2], arrived, scope, body), match[1])
            finally:
                self._connections.discard(line)
        else:
            await _write_response(send, error_response(404, "Not Found"))

    def cut_connections(self) -> None:
        """Cut every connection with an open call, such as a long poll."""
        for line in self._connections:
            line.close()

    async def _handle(self, connection: "Connection", api_call: BotApiCall, token: str) -> None:
        self.calls.append(api_call)
        self.world.changes.notify()
        if token == self._token:
            await self.respond(connection, api_call)
        else:
            is_token = _TOKEN.fullmatch(token)
            refusal = error_response(401, "Unauthorized") if is_token else error_response(404, "Not Found")
            await self.send_response(connection, api_call, refusal)
        self.world.changes.notify()

    async def respond(self, connection: "Connection", api_call: BotApiCall) -> None:
        """Carry a call out and answer it."""
        await self.send_response(connection, api_call, await self.call_method(connection, api_call))

    async def call_method(self, connection: "Connection", api_call: BotApiCall) -> BotApiResponse:
        """Carry a call out; returns the answer to it."""
        name = api_call.method.lower()
        try:
            if api_call.refusal:
                raise api_call.refusal
            if name == "getupdates":
                return await self._get_updates(connection, api_call.params)
            method = self._methods.get(name)
            if method is None:
                return error_response(404, "Not Found: method not found")
            result = method(self.world, api_call.params)
        except TelegramRefusal as refusal:
            return error_response(refusal.status, refusal.description, refusal.parameters)
        return BotApiResponse(200, encode_json({"ok": True, "result": result}), result=result)

    async def _get_updates(self, connection: "Connection", params: Params) -> BotApiResponse:
        queue = self.world.updates
        try:
            queue.set_allowed_kinds(params.json("allowed_updates"))
        except ValueError:
            queue.set_allowed_kinds(None)  # unreadable: the kinds asked for before stay
        batch = await queue.poll(
            params.integer("offset"),
            params.integer("limit", 100),
            params.integer("timeout"),
            connection.wait_for_disconnect,
        )
        body = b'{"ok":true,"result":[' + b",\n".join(update.body for update in batch) + b"]}"
        return BotApiResponse(200, body, updates=tuple(batch))

    async def send_response(
        self, connection: "Connection", api_call: BotApiCall, response: BotApiResponse
    ) -> None:
        """Answer a call, unless its client is gone."""
        if connection.is_disconnected:
            api_call.outcome = "cut"
            return
        api_call.status = response.status
        api_call.description = response.description
        api_call.result = response.result
        api_call.update_ids = tuple(update.update_id for update in response.updates)
        await _write_response(connection.send, response)
        api_call.answered_at = time.monotonic()
        api_call.outcome = "ok" if response.status == 200 else "refused"

    def _file_response(self, token: str, file_id: str) -> BotApiResponse:
        file = self.world.files.find(file_id)
        if token == self._token and file is not None:
            return BotApiResponse(200, file.content, b"application/octet-stream")
        return error_response(404, "Not Found")


class Connection:
    """The connection a call came over."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.send = send
        self.is_disconnected = False
        self._receive = receive

    async def wait_for_disconnect(self) -> None:
        """Wait until the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_disconnected = True

    def close(self) -> None:
        """Close the connection without an answer.

        ASGI has no such message, so this uses uvicorn's transport.
        """
        cycle = self.send.__self__  # type: ignore[attr-defined]  # uvicorn's request cycle
        cycle.transport.close()


def _parse_call(method: str, arrived_at: float, scope: Scope, body: bytes) -> BotApiCall:
    content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    try:
        params = read_params(scope["query_string"], content_type.decode("latin-1"), body)
    except TelegramRefusal as refusal:
        return BotApiCall(method, Params({}), arrived_at, refusal=refusal)
    return BotApiCall(method, params, arrived_at)


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    chunks: list[bytes] = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        chunks.append(message.get("body", b""))
    return b"".join(chunks)


async def _write_response(send: Send, response: BotApiResponse) -> None:
    headers = [(b"content-type", response.content_type), (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def error_response(status: int, description: str, parameters: Json | None = None) -> BotApiResponse:
    """The answer to a call that is refused."""
    extra = {"parameters": parameters} if parameters else {}
    body = {"ok": False, "error_code": status, "description": description, **extra}
    return BotApiResponse(status, encode_json(body), description=description)
