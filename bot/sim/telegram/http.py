"""The HTTP side of the simulated Bot API: an ASGI app that reads a call, carries it out, and answers, late or
never.

Owns the log of calls and the faults waiting for them; cuts connections through uvicorn's transport.
"""

import asyncio
import json
import re
import time
from collections import deque
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from bot.sim.telegram.chats import World
from bot.sim.telegram.events import Call
from bot.sim.telegram.faults import Fault, Injection
from bot.sim.telegram.methods import method_table
from bot.sim.telegram.params import Json, Params, Refusal, read_params
from bot.sim.telegram.updates import Pending

_CALL_PATH = re.compile(r"/bot([^/]*)/([^/]*)/?")
_FILE_PATH = re.compile(r"/file/bot([^/]*)/files/(.+)")
_TOKEN = re.compile(r"[1-9][0-9]*:[A-Za-z0-9_-]+")
_KEPT_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back over HTTP; `batch` are the updates in it."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    description: str = ""
    result: object = None
    batch: tuple[Pending, ...] = ()


class Front:
    """The ASGI app of one bot. `latency` is the seconds every answer takes to travel."""

    def __init__(self, world: World, token: str, latency: float) -> None:
        self.latency = latency
        self.calls: deque[Call] = deque(maxlen=_KEPT_CALLS)
        self.injections: list[Injection] = []
        self.fetched: dict[int, float] = {}
        self._world = world
        self._token = token
        self._methods = method_table()
        self._lines: set[_Line] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        arrived = time.monotonic()
        body = await _read(receive)
        path = scope["path"]
        if named := _FILE_PATH.fullmatch(path):
            await _write(send, self._file(named[1], named[2]))
        elif named := _CALL_PATH.fullmatch(path):
            line = _Line(receive, send)
            self._lines.add(line)
            try:
                await self._handle(line, _call(named[2], arrived, scope, body), named[1])
            finally:
                self._lines.discard(line)
        else:
            await _write(send, _error(404, "Not Found"))

    def hang_up(self) -> None:
        """Cut every connection with an open call, such as a long poll."""
        for line in self._lines:
            line.close()

    async def _handle(self, line: "_Line", call: Call, token: str) -> None:
        self.calls.append(call)
        fault = next((i.fault for i in self.injections if i.strikes(call)), None) or Fault()
        self._world.changes.tell()
        if token != self._token:
            if _TOKEN.fullmatch(token):
                answer = _error(401, "Unauthorized")
            else:
                answer = _error(404, "Not Found")
        else:
            answer = await self._carry_out(line, call, fault)
        if self.latency:
            await asyncio.sleep(self.latency)
        await self._finish(line, call, fault, answer)
        self._world.changes.tell()

    async def _carry_out(self, line: "_Line", call: Call, fault: Fault) -> Answer:
        if fault.before:
            await asyncio.sleep(fault.before)
        answer = _faulty(fault)
        if fault.takes_effect:
            own = await self._answer(line, call)
            answer = own if fault.end != "error" else answer
        if fault.after:
            await asyncio.sleep(fault.after)
        return answer

    async def _answer(self, line: "_Line", call: Call) -> Answer:
        name = call.method.lower()
        try:
            if call.unreadable:
                raise call.unreadable
            if name == "getupdates":
                return await self._updates(line, call.params)
            method = self._methods.get(name)
            if method is None:
                return _error(404, "Not Found: method not found")
            result = method(self._world, call.params)
        except Refusal as refusal:
            return _error(refusal.status, refusal.description, refusal.parameters)
        return Answer(200, _encode({"ok": True, "result": result}), result=result)

    async def _updates(self, line: "_Line", params: Params) -> Answer:
        queue = self._world.updates
        try:
            queue.allow(params.json("allowed_updates"))
        except ValueError:
            queue.allow(None)  # unreadable: the kinds asked for before stay
        batch = await queue.poll(
            params.integer("offset"),
            params.integer("limit", 100),
            params.integer("timeout"),
            line.wait_for_hang_up,
        )
        body = b'{"ok":true,"result":[' + b",\n".join(update.body for update in batch) + b"]}"
        return Answer(200, body, batch=tuple(batch))

    async def _finish(self, line: "_Line", call: Call, fault: Fault, answer: Answer) -> None:
        if fault.end == "silence":
            call.outcome = "hung"
            await line.wait_for_hang_up()
        elif fault.end == "cut" or line.is_hung_up:
            call.outcome = "cut"
            await line.cut()
        else:
            call.status = answer.status
            call.description = answer.description
            call.result = answer.result
            call.updates = tuple(update.update_id for update in answer.batch)
            await _write(line.send, answer)
            call.left = time.monotonic()
            call.outcome = "ok" if answer.status == 200 else "refused"
            self._world.updates.sent(answer.batch)
            for update_id in call.updates:
                self.fetched.setdefault(update_id, call.left)

    def _file(self, token: str, file_id: str) -> Answer:
        if token == self._token:
            content = self._world.files.get(file_id)
        else:
            content = None
        if content is not None:
            return Answer(200, content, b"application/octet-stream")
        return _error(404, "Not Found")


class _Line:
    """The connection a call came over."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.send = send
        self.is_hung_up = False
        self._receive = receive

    async def wait_for_hang_up(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_hung_up = True

    def close(self) -> None:
        """Close the connection without a word: ASGI has no such message, so this asks uvicorn's transport."""
        cycle = self.send.__self__  # type: ignore[attr-defined] # uvicorn's request cycle, in all its HTTP protocols
        cycle.transport.close()

    async def cut(self) -> None:
        """Close the connection and see it closed, lest uvicorn miss an answer."""
        if not self.is_hung_up:
            self.close()
            await self.wait_for_hang_up()


def _call(method: str, arrived: float, scope: Scope, body: bytes) -> Call:
    content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    try:
        params = read_params(scope["query_string"], content_type.decode("latin-1"), body)
    except Refusal as refusal:
        return Call(method, Params({}), arrived, unreadable=refusal)
    return Call(method, params, arrived)


async def _read(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


async def _write(send: Send, answer: Answer) -> None:
    headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _error(status: int, description: str, parameters: Json | None = None) -> Answer:
    extra = {"parameters": parameters} if parameters else {}
    body = {"ok": False, "error_code": status, "description": description, **extra}
    return Answer(status, _encode(body), description=description)


def _faulty(fault: Fault) -> Answer:
    if fault.page:
        return Answer(fault.status, fault.page.encode(), b"text/html", description=fault.description)
    return _error(
        fault.status, fault.description, {"retry_after": fault.retry_after} if fault.retry_after else None
    )


def _encode(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
