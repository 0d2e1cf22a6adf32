"""An MCP server over HTTP whose tool `book` asks before it answers, in the protocol of 2025 or of 2026."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.support.mcp_http_server import FakeMcpHttpServer


def ask_form(message: str, required: list[str] | None = None, **properties: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a question with a form."""
    names = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": names}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def ask_link(message: str, url: str) -> dict[str, Any]:
    return {"mode": "url", "message": message, "url": url, "elicitationId": "link-1"}


class AskingMcpServer(FakeMcpHttpServer):
    """`questions` are asked one after the other, or `at_once`; `answers` are those that came."""

    def __init__(self, *questions: dict[str, Any], modern: bool = False, at_once: bool = False) -> None:
        super().__init__(modern=modern, read_only=True)
        self.tools = ["book", "wait"]
        self.questions = questions
        self.at_once = at_once
        self.answers: list[dict[str, Any]] = []
        self._answer_came = asyncio.Event()

    async def handle_post(self, request: Request) -> Response:
        message = await request.json()
        if "method" in message:
            return await super().handle_post(request)
        self.answers.append(message.get("result") or message["error"])
        self._answer_came.set()
        return Response(status_code=202)

    async def handle_call(self, request: Request, message: dict[str, Any]) -> Response:
        if message["params"]["name"] != "book":
            return await super().handle_call(request, message)
        if self.modern:
            return self._answer_modern(message)
        return StreamingResponse(self._converse(message), media_type="text/event-stream")

    def _answer_modern(self, message: dict[str, Any]) -> Response:
        given = message["params"].get("inputResponses") or {}
        self.answers += given.values()
        if len(self.answers) == len(self.questions):
            return self.build_text_answer(message, self._format_answers())
        number = len(self.answers)
        question = {"method": "elicitation/create", "params": self.questions[number]}
        result = {
            "resultType": "input_required",
            "inputRequests": {f"question-{number}": question},
            "requestState": str(number),
        }
        return self.build_answer(message, result)

    async def _converse(self, message: dict[str, Any]) -> AsyncIterator[str]:
        for number, question in enumerate(self.questions):
            asked = {"jsonrpc": "2.0", "id": f"question-{number}", "method": "elicitation/create"}
            yield format_event({**asked, "params": question})
            while not self.at_once and len(self.answers) <= number:
                await self._wait_answer()
        while len(self.answers) < len(self.questions):
            await self._wait_answer()
        content = [{"type": "text", "text": self._format_answers()}]
        yield format_event({"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}})

    async def _wait_answer(self) -> None:
        await self._answer_came.wait()
        self._answer_came.clear()

    def _format_answers(self) -> str:
        return json.dumps([[answer["action"], answer.get("content")] for answer in self.answers])


def format_event(message: dict[str, Any]) -> str:
    return f"event: message\ndata: {json.dumps(message)}\n\n"
