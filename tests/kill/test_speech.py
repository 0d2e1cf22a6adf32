"""kill -9 between an answer and its voice: the text stands, and the voice comes once or is asked about."""

import asyncio

import pytest

from bot.http_server import serve
from bot.sim.vllm.server import CHIME, SpeechRequest
from tests.kill.conftest import OpenEnvironment
from tests.kill.environment import UNSURE, KillEnvironment
from tests.support.endpoint.server import ScriptedEndpoint

TEXT_HAS_ARRIVED = "select 1 where not exists (select 1 from outbox where state != 'done')"


def count_voices(environment: KillEnvironment) -> int:
    return sum("voice" in message.raw for message in environment.messages())


@pytest.mark.parametrize("moment", ["while it is made", "while it is sent", "after it has arrived"])
async def test_around_the_voice_of_an_answer(surround: OpenEnvironment, moment: str):
    await check_voice(surround, moment, {})


async def test_while_a_voice_is_sent_with_a_database_on_a_server(
    surround: OpenEnvironment, server_database: dict[str, str]
):
    await check_voice(surround, "while it is sent", server_database)


async def check_voice(surround: OpenEnvironment, moment: str, settings: dict[str, str]) -> None:
    """Kill the gateway at this moment, and assert what the chat has afterwards."""
    sound = ScriptedEndpoint()
    async with serve(sound.app) as url:
        environment = await surround(speech_url=f"{url}/v1", **settings)
        environment.ann.send("/voice on")
        await environment.until(lambda: environment.texts())
        is_killed = asyncio.Event()
        is_made = moment != "while it is made"
        if is_made:
            is_killed.set()

        async def speak(_: SpeechRequest) -> bytes:
            await is_killed.wait()
            return CHIME

        sound.synthesize = speak
        upload = None
        if is_made:
            upload = environment.freeze_at("sendVoice", arrives=moment == "after it has arrived")
        environment.ann.send("@@say:Six.@@")
        if upload is not None:
            await environment.until(lambda: upload.hit_count)
            await environment.gateway.restart()
            await environment.until(lambda: environment.doubtful_messages())
        else:
            await sound.wait_until(lambda: bool(sound.speech_requests))
            await environment.wait_for_row(TEXT_HAS_ARRIVED)  # it may be on its way still
            await environment.gateway.kill()
            is_killed.set()
            await environment.gateway.start()
            await environment.until(lambda: count_voices(environment))
        await environment.wait_until_idle()
    assert count_voices(environment) == (moment != "while it is sent")
    assert environment.texts().count("Six.") == 1
    assert environment.texts().count(UNSURE) == (upload is not None)
    assert len(sound.speech_requests) == (1 if is_made else 2)
