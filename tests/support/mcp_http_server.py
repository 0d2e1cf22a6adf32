"""An MCP server over HTTP that behaves well or badly, as its tools say.

Written by hand, since the SDK's own server cannot misbehave.
"""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

ANY_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL_NAMES = (
    "echo",
    "headers",
    "huge",
    "huge_event",
    "many",
    "many_event",
    "packed",
    "forget",
    "page",
    "drop",
    "wait",
    "grow",
    "paint",
    "work",
)


MODERN_FIELDS: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class FakeMcpHttpServer:
    """`modern`: it speaks the protocol of 2026, without sessions; `read_only`: its tools change nothing.

    `schemas` are of arguments, by tool, where they are not ANY_SCHEMA; `calls` are the arguments that came.
    `sessions` are those it knows, `methods` those of the messages that came, `release` lets a waiting call
    continue.
    """

    def __init__(self, *, modern: bool = False, read_only: bool = False) -> None:
        self.modern = modern
        self.hints = {"readOnlyHint": read_only}
        self.picture = b""
        self.resources: dict[str, str] = {}
        self.read_uris: list[str] = []
        self.tools = [*TOOL_NAMES]
        self.schemas: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        self.sessions: set[str] = set()
        self.methods: list[str] = []
        self.ended_sessions: list[str] = []
        self.release = asyncio.Event()
        self.is_waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._tools_changed = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/mcp", self.handle_post, methods=["POST"]),
                Route("/mcp", self._get, methods=["GET"]),
                Route("/mcp", self._delete, methods=["DELETE"]),
                Route("/moved", self._redirect_to_mcp, methods=["POST", "GET", "DELETE"]),
                Route("/away", self._redirect_away, methods=["POST"]),
                Route("/broken", self._send_broken, methods=["POST"]),
            ]
        )
        self.redirect_url = ""

    async def _redirect_to_mcp(self, request: Request) -> Response:
        return RedirectResponse("/mcp", 307)

    async def _redirect_away(self, request: Request) -> Response:
        return RedirectResponse(self.redirect_url, 307)

    async def _send_broken(self, request: Request) -> Response:
        return Response("{ this is no message", media_type="application/json")

    async def _delete(self, request: Request) -> Response:
        self.ended_sessions.append(request.headers["mcp-session-id"])
        return Response()

    async def _get(self, request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            while True:
                await self._tools_changed.wait()
                self._tools_changed.clear()
                yield _format_event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

        return StreamingResponse(events(), media_type="text/event-stream")

    async def handle_post(self, request: Request) -> Response:
        message = await request.json()
        self.methods.append(message["method"])
        response = self._answer_without_session(message)
        if response is not None:
            return response
        if not self.modern and request.headers.get("mcp-session-id") not in self.sessions:
            return Response(status_code=404)
        match message["method"]:
            case "resources/list":
                listed = [{"uri": uri, "name": uri} for uri in self.resources]
                return _json_answer(message, {"resources": listed})
            case "resources/templates/list":
                return _json_answer(message, {"resourceTemplates": []})
            case "resources/read":
                uri = message["params"]["uri"]
                self.read_uris.append(uri)
                return _json_answer(
                    message, {"contents": [{"uri": uri, "text": self.resources.get(uri, "")}]}
                )
            case "tools/list":
                tools = [
                    {
                        "name": name,
                        "inputSchema": self.schemas.get(name, ANY_SCHEMA),
                        "annotations": self.hints,
                    }
                    for name in self.tools
                ]
                result: dict[str, Any] = {"tools": tools}
                if self.modern:
                    result |= MODERN_FIELDS
                return _json_answer(message, result)
            case "tools/call":
                return await self.handle_call(request, message)
            case "notifications/cancelled":
                self.cancelled.set()
        return Response(status_code=202)

    def build_answer(self, message: dict[str, Any], result: dict[str, Any]) -> Response:
        return _json_answer(message, result)

    def build_text_answer(self, message: dict[str, Any], text: str) -> Response:
        return _json_answer(message, _text_result(text))

    def _answer_without_session(self, message: dict[str, Any]) -> Response | None:
        """The answer to a message that needs no session."""
        match message["method"]:
            case "initialize":
                return self._initialize(message)
            case "server/discover" if self.modern:
                capabilities = {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": True}},
                }
                return _json_answer(message, {**MODERN_FIELDS, **capabilities})
            case "server/discover":
                return JSONResponse({"error": "what?"}, 400)
            case "subscriptions/listen":
                return StreamingResponse(_short_subscription(message["id"]), media_type="text/event-stream")
        return None

    def _initialize(self, message: dict[str, Any]) -> Response:
        session = f"session-{len(self.sessions) + 1}"
        self.sessions.add(session)
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        if self.resources:
            capabilities["resources"] = {}
        info = {"name": "web", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        return _json_answer(message, result, {"mcp-session-id": session})

    async def handle_call(self, request: Request, message: dict[str, Any]) -> Response:
        name = message["params"]["name"]
        self.calls.append(message["params"]["arguments"])
        if name in (answers := self._build_answers(request, message)):
            return answers[name]
        match name:
            case "work":
                return StreamingResponse(self._work(message), media_type="text/event-stream")
            case "forget":
                self.sessions.clear()
            case "wait":
                self.is_waiting.set()
                await self.release.wait()
            case "grow":
                self.tools.append("grown")
                self._tools_changed.set()
        return _json_answer(message, _text_result(message["params"]["arguments"].get("text", "")))

    async def _work(self, message: dict[str, Any]) -> AsyncIterator[str]:
        """Report progress, and answer once it is released."""
        progress = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 2, "total": 10}
        params = {**progress, "message": "downloading *all* of https://evil.example"}
        yield _format_event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await self.release.wait()
        yield _format_event({"jsonrpc": "2.0", "id": message["id"], "result": _text_result("worked")})

    def _build_answers(self, request: Request, message: dict[str, Any]) -> dict[str, Response]:
        huge = _text_result("x" * 4_300_000)
        many = {"content": [{"type": "text", "text": ""}] * 20_000}
        huge_event, many_event = (
            _format_event({"jsonrpc": "2.0", "id": message["id"], "result": result})
            for result in (huge, many)
        )
        packed = gzip.compress(json.dumps(huge).encode())
        mismatch = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32020, "message": "other headers"},
        }
        drawn = {"type": "image", "data": base64.b64encode(self.picture).decode(), "mimeType": "image/png"}
        return {
            "paint": _json_answer(message, {"content": [drawn], "resultType": "complete"}),
            "ask": _json_answer(message, {"resultType": "input_required", "requestState": "go on"}),
            "mismatch": JSONResponse(mismatch, 400),
            "headers": _json_answer(message, _text_result(json.dumps(dict(request.headers)))),
            "huge": _json_answer(message, huge),
            "many": _json_answer(message, many),
            "many_event": Response(many_event, media_type="text/event-stream"),
            "huge_event": Response(huge_event, media_type="text/event-stream"),
            "packed": Response(packed, headers={"content-encoding": "gzip"}, media_type="application/json"),
            "page": Response("<html>", media_type="text/html"),
            "garbage": JSONResponse({"what": "is this?"}),
            "drop": StreamingResponse(_empty_stream(), media_type="text/event-stream"),
        }


async def _empty_stream() -> AsyncIterator[str]:
    yield ": nothing comes\n\n"


def _format_event(message: dict[str, Any]) -> str:
    return f"event: message\ndata: {json.dumps(message)}\n\n"


async def _short_subscription(id: str) -> AsyncIterator[str]:
    """A subscription that is acknowledged and then breaks off."""
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
    yield _format_event(
        {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
    )


def _text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def _json_answer(
    message: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)
