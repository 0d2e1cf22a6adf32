"""The speech route: a text becomes sound, anything else is refused."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from bot.http_server import serve
from bot.sim.vllm.server import CHIME, SpeechRequest
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import open_client


@pytest.mark.parametrize("profile", [ServerProfile(), ServerProfile.hosted_api()])
async def test_the_openai_client_gets_the_sound_of_a_text(profile: ServerProfile) -> None:
    endpoint = ScriptedEndpoint(profile)
    async with serve(endpoint.app) as url, AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        spoken = await client.audio.speech.create(
            model="tts-1", voice="alloy", input="Hello.", response_format="opus"
        )
    assert spoken.content == CHIME
    assert spoken.response.headers["content-type"] == "audio/opus"
    assert endpoint.speech_requests == [SpeechRequest("Hello.", "tts-1", "alloy", "opus")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"voice": None}, "valid string"),
        ({"input": " "}, "1 to 4096 characters"),
        ({"input": "x" * 4097}, "1 to 4096 characters"),
        ({"response_format": "ogg"}, "Input should be one of ['mp3', 'opus'"),
    ],
)
async def test_what_the_documents_do_not_allow_is_refused(changes: dict[str, Any], message: str) -> None:
    endpoint = ScriptedEndpoint()
    body = {"model": "tts-1", "voice": "alloy", "input": "Hello."}
    async with open_client(endpoint) as player:
        refused = await player.http.post("/v1/audio/speech", json=body | changes)
        incomplete = await player.http.post("/v1/audio/speech", json={"input": "Hello."})
    assert refused.status_code == incomplete.status_code == 400
    assert message in refused.json()["error"]["message"]
    assert endpoint.speech_requests == []
