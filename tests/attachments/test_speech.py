"""A text is read out by a service; whatever that does, the result is Opus or a reason."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.attachments.speech import SpeechSynthesizer, is_ogg_opus
from bot.errors import SpeechFailed
from bot.http_server import serve
from bot.sim.vllm.server import CHIME, SpeechRequest
from tests.support.endpoint.server import ScriptedEndpoint


class FakeSpeechService:
    """A speech service with a configurable answer."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[str | None] = []
        self.answer: Callable[[], Awaitable[Response]] = self.hang

    async def handle(self, request: Request) -> Response:
        self.keys.append(request.headers.get("authorization"))
        return await self.answer()

    async def hang(self) -> Response:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
async def service() -> AsyncIterator[FakeSpeechService]:
    service = FakeSpeechService()
    routes = [Route("/v1/audio/speech", service.handle, methods=["POST"])]
    async with serve(Starlette(routes=routes)) as url:
        service.url = f"{url}/v1"
        yield service


async def test_the_simulated_server_reads_a_text_out():
    endpoint = ScriptedEndpoint()
    async with serve(endpoint.app) as url:
        sound = await SpeechSynthesizer(f"{url}/v1", "tts-1", "alloy").synthesize("Hello.")
    assert sound == CHIME
    assert endpoint.speech_requests == [SpeechRequest("Hello.", "tts-1", "alloy", "opus")]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Response(b""), "playable Opus"),
        (Response(b"RIFF\0\0\0\0WAVEfmt "), "playable Opus"),
        (PlainTextResponse("<html>OpusHead"), "playable Opus"),
        (Response(CHIME[:47]), "playable Opus"),  # a header, and no sound
        (Response(b"OggS" + bytes(40 << 20)), "far too much"),
        (JSONResponse({"error": "no"}, 400), "HTTP 400"),
        (JSONResponse({"error": "busy"}, 503), "HTTP 503"),
    ],
)
async def test_an_answer_without_a_voice_gives_a_reason(
    service: FakeSpeechService, answer: Response, reason: str
):
    async def give() -> Response:
        return answer

    service.answer = give
    with pytest.raises(SpeechFailed, match=reason):
        await SpeechSynthesizer(service.url, "m", "v", "a-key").synthesize("Hello.")
    assert service.keys == ["Bearer a-key"]


async def test_a_service_that_is_slow_or_away_gives_a_reason(service: FakeSpeechService):
    with pytest.raises(SpeechFailed, match="too long"):
        await SpeechSynthesizer(service.url, "m", "v", timeout_seconds=0.2).synthesize("Hello.")
    with pytest.raises(SpeechFailed, match="doesn't answer"):
        await SpeechSynthesizer("http://127.0.0.1:9/v1", "m", "v").synthesize("Hello.")


def test_only_opus_with_sound_in_it_is_taken_for_a_voice():
    assert is_ogg_opus(CHIME)
    assert not is_ogg_opus(CHIME.replace(b"OpusHead", b"vorbis--"))
