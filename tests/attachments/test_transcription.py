"""Sound is transcribed by a service; whatever that does, the result is a text or a reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.attachments.transcription import AWAY, REFUSED, SILENT, SLOW, Transcriber
from bot.errors import AttachmentUnusable
from bot.http_server import serve
from tests.support.endpoint.server import ScriptedEndpoint


class FakeTranscriptionService:
    """A transcription service with a configurable answer."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str | None, bytes]] = []
        self.answer: Callable[[], Awaitable[Response]] = self.answer_hello

    async def handle(self, request: Request) -> Response:
        self.requests.append((request.headers.get("authorization"), await request.body()))
        return await self.answer()

    async def answer_hello(self) -> Response:
        return JSONResponse({"text": " Hello there. \n"})

    def answer_with(self, response: Response) -> None:
        async def answer() -> Response:
            return response

        self.answer = answer

    async def hang(self) -> Response:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
async def service() -> AsyncIterator[FakeTranscriptionService]:
    service = FakeTranscriptionService()
    async with serve(
        Starlette(routes=[Route("/v1/audio/transcriptions", service.handle, methods=["POST"])])
    ) as url:
        service.url = f"{url}/v1"
        yield service


async def test_the_service_gets_the_sound_and_returns_its_text(service: FakeTranscriptionService):
    transcriber = Transcriber(service.url, "whisper-1", "a-key")
    assert await transcriber.transcribe(b"OggS-sound", "sound.ogg", "audio/ogg") == "Hello there."
    [(key, form)] = service.requests
    assert key == "Bearer a-key"
    for piece in (b'name="model"\r\n\r\nwhisper-1', b'filename="sound.ogg"', b"audio/ogg", b"OggS-sound"):
        assert piece in form


async def test_no_key_is_sent_if_there_is_none(service: FakeTranscriptionService):
    await Transcriber(service.url, "whisper-1").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert service.requests[0][0] is None


async def test_a_lone_surrogate_in_a_transcript_is_replaced(service: FakeTranscriptionService):
    service.answer_with(Response(b'{"text": "so \\ud83d"}', media_type="application/json"))
    assert await Transcriber(service.url, "m").transcribe(b"OggS", "sound.ogg", "audio/ogg") == "so ?"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (JSONResponse({"text": "  "}), SILENT),
        (JSONResponse({"error": "no"}, 415), REFUSED),
        (JSONResponse({"error": "busy"}, 503), AWAY),
        (JSONResponse({"words": "x"}), AWAY),
        (JSONResponse(["x"]), AWAY),
        (PlainTextResponse("<html>"), AWAY),
    ],
)
async def test_a_response_without_a_transcript_gives_a_reason(
    service: FakeTranscriptionService, answer: Response, reason: str
):
    service.answer_with(answer)
    with pytest.raises(AttachmentUnusable) as unusable:
        await Transcriber(service.url, "m").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert str(unusable.value) == reason


async def test_a_service_that_never_answers_times_out(service: FakeTranscriptionService):
    service.answer = service.hang
    with pytest.raises(AttachmentUnusable, match=SLOW):
        await Transcriber(service.url, "m", timeout_seconds=0.2).transcribe(b"OggS", "sound.ogg", "audio/ogg")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_service_that_cannot_be_reached_gives_a_reason(scheme: str):
    with pytest.raises(AttachmentUnusable, match="does not answer"):
        await Transcriber(f"{scheme}://127.0.0.1:9/v1", "m").transcribe(b"OggS", "sound.ogg", "audio/ogg")


async def test_the_simulated_endpoint_is_supported():
    async with serve(ScriptedEndpoint().app) as url:
        text = await Transcriber(f"{url}/v1", "whisper-1").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert text == "a sound of 4 bytes"
