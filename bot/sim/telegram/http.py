"""The HTTP side of the simulated Bot API: an ASGI app that reads a call, carries it out and answers.

Owns the log of calls and the faults waiting for them; cuts connections through uvicorn's transport.
"""

import asyncio
import re
import time
from collections import deque
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from bot.sim.telegram.events import BotApiCall
from bot.sim.telegram.faults import BotApiFault, FaultInjection
from bot.sim.telegram.methods import build_method_table
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
    """The ASGI app of one bot. `latency` is the seconds that every answer takes to travel."""

    def __init__(self, world: World, token: str) -> None:
        self.latency = 0.0
        self.calls: deque[BotApiCall] = deque(maxlen=_MAX_LOGGED_CALLS)
        self.injections: list[FaultInjection] = []
        self.fetch_times: dict[int, float] = {}
        self._world = world
        self._token = token
        self._methods = build_method_table()
        self._connections: set[_Connection] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        arrived = time.monotonic()
        body = await _read_body(receive)
        path = scope["path"]
        if match := _FILE_PATH.fullmatch(path):
            await _write_response(send, self._file_response(match[1], match[2]))
        elif match := _CALL_PATH.fullmatch(path):
            line = _Connection(receive, send)
            self._connections.add(line)
            try:
                await self._handle(line, _parse_call(match[2], arrived, scope, body), match[1])
            finally:
                self._connections.discard(line)
        else:
            await _write_response(send, _error_response(404, "Not Found"))

    def cut_connections(self) -> None:
        """Cut every connection with an open call, such as a long poll."""
        for line in self._connections:
            line.close()

    async def _handle(self, connection: "_Connection", api_call: BotApiCall, token: str) -> None:
        self.calls.append(api_call)
        fault = next((i.fault for i in self.injections if i.take_call(api_call)), None) or BotApiFault()
        self._world.changes.notify()
        if token != self._token:
            if _TOKEN.fullmatch(token):
                answer = _error_response(401, "Unauthorized")
            else:
                answer = _error_response(404, "Not Found")
        else:
            answer = await self._carry_out(connection, api_call, fault)
        if self.latency:
            await asyncio.sleep(self.latency)
        await self._send_response(connection, api_call, fault, answer)
        self._world.changes.notify()

    async def _carry_out(
        self, connection: "_Connection", api_call: BotApiCall, fault: BotApiFault
    ) -> BotApiResponse:
        if fault.seconds_before:
            await asyncio.sleep(fault.seconds_before)
        answer = _fault_response(fault)
        if fault.takes_effect:
            own_answer = await self._call_method(connection, api_call)
            if fault.ending != "error":
                answer = own_answer
        if fault.seconds_after:
            await asyncio.sleep(fault.seconds_after)
        return answer

    async def _call_method(self, connection: "_Connection", api_call: BotApiCall) -> BotApiResponse:
        name = api_call.method.lower()
        try:
            if api_call.refusal:
                raise api_call.refusal
            if name == "getupdates":
                return await self._get_updates(connection, api_call.params)
            method = self._methods.get(name)
            if method is None:
                return _error_response(404, "Not Found: method not found")
            result = method(self._world, api_call.params)
        except TelegramRefusal as refusal:
            return _error_response(refusal.status, refusal.description, refusal.parameters)
        return BotApiResponse(200, encode_json({"ok": True, "result": result}), result=result)

    async def _get_updates(self, connection: "_Connection", params: Params) -> BotApiResponse:
        queue = self._world.updates
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

    async def _send_response(
        self, connection: "_Connection", api_call: BotApiCall, fault: BotApiFault, response: BotApiResponse
    ) -> None:
        if fault.ending == "silence":
            api_call.outcome = "hung"
            await connection.wait_for_disconnect()
        elif fault.ending == "cut" or connection.is_disconnected:
            api_call.outcome = "cut"
            await connection.close_and_wait()
        else:
            api_call.status = response.status
            api_call.description = response.description
            api_call.result = response.result
            api_call.update_ids = tuple(update.update_id for update in response.updates)
            await _write_response(connection.send, response)
            api_call.answered_at = time.monotonic()
            api_call.outcome = "ok" if response.status == 200 else "refused"
            self._world.updates.mark_sent(response.updates)
            for update_id in api_call.update_ids:
                self.fetch_times.setdefault(update_id, api_call.answered_at)

    def _file_response(self, token: str, file_id: str) -> BotApiResponse:
        file = self._world.files.find(file_id)
        if token == self._token and file is not None:
            return BotApiResponse(200, file.content, b"application/octet-stream")
        return _error_response(404, "Not Found")


class _Connection:
    """The connection a call came over."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.send = send
        self.is_disconnected = False
        self._receive = receive

    async def wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_disconnected = True

    def close(self) -> None:
        """Close the connection without an answer.

        ASGI has no such message, so this uses uvicorn's transport.
        """
        cycle = self.send.__self__  # type: ignore[attr-defined]  # uvicorn's request cycle
        cycle.transport.close()

    async def close_and_wait(self) -> None:
        """Close the connection and wait until it is closed, so that uvicorn misses no answer."""
        if not self.is_disconnected:
            self.close()
            await self.wait_for_disconnect()


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


def _error_response(status: int, description: str, parameters: Json | None = None) -> BotApiResponse:
    extra = {"parameters": parameters} if parameters else {}
    body = {"ok": False, "error_code": status, "description": description, **extra}
    return BotApiResponse(status, encode_json(body), description=description)


def _fault_response(fault: BotApiFault) -> BotApiResponse:
    if fault.html_page:
        return BotApiResponse(
            fault.status, fault.html_page.encode(), b"text/html", description=fault.description
        )
    parameters = {"retry_after": fault.retry_after} if fault.retry_after else None
    return _error_response(fault.status, fault.description, parameters)
