"""The findings about voice: a word is spoken and heard, or what an admin may do."""

import pytest

from bot.attachments.speech import SpeechSynthesizer
from bot.attachments.transcription import Transcriber
from bot.check.findings import FindingStatus
from bot.check.voice_probe import SPEECH_HINT, TRANSCRIBE_HINT, probe_voice
from bot.http_server import serve
from bot.sim.vllm.server import CHIME, SpeechRequest
from tests.support.endpoint.server import ScriptedEndpoint


@pytest.mark.parametrize(
    ("sound", "heard", "statuses"),
    [
        (CHIME, "Hello.", ["pass", "pass"]),
        (CHIME, "", ["pass", "warn"]),
        (b"RIFF", "", ["fail", "pass"]),  # three notes are no word
    ],
)
async def test_a_word_is_spoken_and_heard(sound: bytes, heard: str, statuses: list[FindingStatus]):
    async def speak(_: SpeechRequest) -> bytes:
        return sound

    endpoint = ScriptedEndpoint(synthesize=speak, transcribe=lambda _: heard)
    async with serve(endpoint.app) as url:
        address = f"{url}/v1"
        findings = await probe_voice(SpeechSynthesizer(address, "m", "v"), Transcriber(address, "m"))
    assert [finding.status for finding in findings] == statuses
    assert endpoint.audio_uploads[0].data == CHIME


async def test_services_that_are_away_name_their_settings_and_those_not_set_up_nothing():
    away = "http://127.0.0.1:9/v1"
    findings = await probe_voice(SpeechSynthesizer(away, "m", "v"), Transcriber(away, "m"))
    assert [finding.mend for finding in findings] == [SPEECH_HINT, TRANSCRIBE_HINT]
    assert await probe_voice(None, None) == ()
