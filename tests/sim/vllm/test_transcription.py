"""The transcription route: a file becomes text, anything else is refused."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from bot.http_server import serve
from bot.sim.vllm.server import AudioUpload
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import open_client

WILD = bytes(range(256)) + b"\r\n--boundary\r\n\n\r\r"


@pytest.mark.parametrize("profile", [ServerProfile(), ServerProfile.hosted_api()])
async def test_the_openai_client_gets_the_text_of_a_file(profile: ServerProfile) -> None:
    endpoint = ScriptedEndpoint(profile, transcribe=lambda sound: f"{sound.name} says hello")
    async with serve(endpoint.app) as url, AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        transcript = await client.audio.transcriptions.create(
            model="whisper-1", file=("voice.ogg", WILD, "audio/ogg")
        )
    assert transcript.text == "voice.ogg says hello"
    assert endpoint.audio_uploads == [AudioUpload("voice.ogg", "audio/ogg", WILD, "whisper-1")]


async def test_without_an_ear_of_its_own_it_tells_the_size() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.http.post("/v1/audio/transcriptions", files={"file": ("a.ogg", b"12345")})
    assert played.json() == {"text": "a sound of 5 bytes"}


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"data": {"model": "m"}, "files": {"other": ("a", b"x")}}, "Field required"),
        ({"files": {"file": (None, b"only text")}}, "Field required"),
        ({"json": {"file": "x"}}, "Only 'multipart/form-data' is allowed"),
        ({"content": b"", "headers": {"content-type": "multipart/form-data; boundary=b"}}, "Field required"),
    ],
)
async def test_no_file_is_refused(sent: dict[str, Any], message: str) -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        played = await player.http.post("/v1/audio/transcriptions", **sent)
    assert played.status_code == 400
    assert message in played.json()["error"]["message"]
    assert endpoint.audio_uploads == []
