"""Sound is written down by a service; whatever that does, the outcome is a text or a reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.attachments import transcription as sound
from bot.attachments.transcription import Transcriber
from bot.errors import AttachmentUnusable
from bot.http_server import serve
from bot.sim.vllm.server import SimulatedEndpoint


class FakeTranscriptionService:
    """A transcription service that answers as it is told."""

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
        async def told() -> Response:
            return response

        self.answer = told

    async def hang(self) -> Response:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
async def ear() -> AsyncIterator[FakeTranscriptionService]:
    ear = FakeTranscriptionService()
    async with serve(
        Starlette(routes=[Route("/v1/audio/transcriptions", ear.handle, methods=["POST"])])
    ) as url:
        ear.url = f"{url}/v1"
        yield ear


async def test_the_service_is_sent_the_sound_and_its_text_comes_back(ear: FakeTranscriptionService):
    transcriber = Transcriber(ear.url, "whisper-1", "a-key")
    assert await transcriber.transcribe(b"OggS-sound", "sound.ogg", "audio/ogg") == "Hello there."
    [(key, form)] = ear.requests
    assert key == "Bearer a-key"
    for piece in (b'name="model"\r\n\r\nwhisper-1', b'filename="sound.ogg"', b"audio/ogg", b"OggS-sound"):
        assert piece in form


async def test_no_key_is_sent_where_there_is_none(ear: FakeTranscriptionService):
    await Transcriber(ear.url, "whisper-1").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert ear.requests[0][0] is None


async def test_half_a_sign_in_a_transcript_cannot_break_what_keeps_it(ear: FakeTranscriptionService):
    ear.answer_with(Response(b'{"text": "so \\ud83d"}', media_type="application/json"))
    assert await Transcriber(ear.url, "m").transcribe(b"OggS", "sound.ogg", "audio/ogg") == "so ?"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (JSONResponse({"text": "  "}), sound.SILENT),
        (JSONResponse({"error": "no"}, 415), sound.REFUSED),
        (JSONResponse({"error": "busy"}, 503), sound.AWAY),
        (JSONResponse({"words": "x"}), sound.AWAY),
        (JSONResponse(["x"]), sound.AWAY),
        (PlainTextResponse("<html>"), sound.AWAY),
    ],
)
async def test_what_is_no_transcript_is_a_reason(ear: FakeTranscriptionService, answer: Response, why: str):
    ear.answer_with(answer)
    with pytest.raises(AttachmentUnusable) as unusable:
        await Transcriber(ear.url, "m").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert str(unusable.value) == why


async def test_a_service_that_never_answers_is_given_up(ear: FakeTranscriptionService):
    ear.answer = ear.hang
    with pytest.raises(AttachmentUnusable, match=sound.SLOW):
        await Transcriber(ear.url, "m", timeout_seconds=0.2).transcribe(b"OggS", "sound.ogg", "audio/ogg")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_service_that_is_not_there_is_a_reason(scheme: str):
    with pytest.raises(AttachmentUnusable, match="does not answer"):
        await Transcriber(f"{scheme}://127.0.0.1:9/v1", "m").transcribe(b"OggS", "sound.ogg", "audio/ogg")


async def test_the_simulated_endpoint_is_understood():
    async with serve(SimulatedEndpoint().app) as url:
        text = await Transcriber(f"{url}/v1", "whisper-1").transcribe(b"OggS", "sound.ogg", "audio/ogg")
    assert text == "a sound of 4 bytes"
