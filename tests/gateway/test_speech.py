"""Answers that are spoken: the text first, then its voice; whatever its service does, the text is there."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bot.admin.turn_step_tables import build_tables
from bot.chat.outside_speech import SOUND_KEPT_HERE
from bot.chat.unreachable_chats import VOICE_REFUSED
from bot.db.engine import open_database
from bot.db.queues.admin_notices import record_if_changed
from bot.db.tables import outbox_files, speeches
from bot.db.usage.turn_steps import load_steps
from bot.http_server import serve
from bot.sim.telegram.server import MAX_WAIT_SECONDS
from bot.sim.vllm.server import CHIME, SpeechRequest
from bot.usage.report_command import ReportOptions, render_report
from bot.usage.turn_report import render_lines
from tests.gateway.test_schedules import has_said
from tests.support.endpoint.server import ScriptedEndpoint, reply_with
from tests.support.gateway import ADMIN, GatewayHarness, place_database, running_gateway

ANSWER = "It is **low** at [six](https://a.example) [1].\n\n```\nx = 1\n```"
SPOKEN = "It is low at six."


@dataclass
class SpeakingGateway:
    """A gateway, and the services that hear and speak."""

    gateway: GatewayHarness
    sound: ScriptedEndpoint

    def voices(self, chat: int = ADMIN) -> list[bytes | None]:
        """The voice messages that a chat has."""
        messages = [message.raw for message in self.gateway.api.chat(chat).bot_messages]
        ids = [raw["voice"]["file_id"] for raw in messages if "voice" in raw]
        return [self.gateway.api.find_file(file_id) for file_id in ids]

    async def wait_for_requests(self, count: int) -> None:
        await self.sound.wait_until(lambda: len(self.sound.speech_requests) == count)

    async def wait_for_other_voice(self) -> None:
        """Wait until a voice message is deleted, and there are two."""
        chat = self.gateway.api.chat(ADMIN)
        await self.gateway.api.wait_until(
            lambda: any("voice" in message.raw for message in chat.deleted_messages)
        )
        await self.wait_for_voices(2)

    async def wait_for_voices(self, count: int = 1) -> None:
        await self.gateway.api.wait_until(lambda: len(self.voices()) >= count)


@contextlib.asynccontextmanager
async def open_speaking(
    tmp_path: Path, *, host: str = "127.0.0.1", **settings: Any
) -> AsyncIterator[SpeakingGateway]:
    """`host`: by which the gateway reaches the services."""
    sound = ScriptedEndpoint(transcribe=lambda _: "When is the tide?")
    async with serve(sound.app) as url:
        url = url.replace("127.0.0.1", host)
        services = {"transcribe_url": f"{url}/v1", "speech_url": f"{url}/v1", **settings}
        endpoint = ScriptedEndpoint(brain=reply_with(ANSWER))
        async with running_gateway(tmp_path, endpoint, **services) as gateway:
            await gateway.api.wait_until(lambda: gateway.api.calls_of("getUpdates"), 3 * MAX_WAIT_SECONDS)
            yield SpeakingGateway(gateway, sound)


async def test_a_voice_message_is_answered_by_text_and_then_by_voice_and_a_text_by_text(tmp_path: Path):
    async with open_speaking(tmp_path) as speaking:
        gateway = speaking.gateway
        is_released = asyncio.Event()

        async def speak_late(_: SpeechRequest) -> bytes:
            await is_released.wait()
            return CHIME

        speaking.sound.synthesize = speak_late
        gateway.ann.send_voice(content=b"OggS")
        (answer,) = await gateway.wait_for_texts()
        await speaking.sound.wait_until(lambda: bool(speaking.sound.speech_requests))
        gateway.ann.send("And tomorrow?")  # another turn waits for no voice
        await gateway.wait_for_texts(2)
        is_released.set()
        await speaking.wait_for_voices()
        assert answer.startswith("It is low at six")
        assert speaking.sound.speech_requests == [SpeechRequest(SPOKEN, "tts-1", "alloy", "opus")]
        assert speaking.voices() == [CHIME]
        [call] = gateway.api.calls_of("sendVoice")
        assert call.params["disable_notification"] == "true"
        states = {
            "loud": "/voice shows the current setting.",
            "": "I also answer voice messages by voice.",
            "off": "I answer only with text.",
            "on": "I speak all my answers",
        }
        for count, (mode, state) in enumerate(states.items(), 4):
            gateway.ann.send(f"/voice {mode}")
            assert state in (await gateway.wait_for_texts(count))[-1]
        question = gateway.ann.send("And in a week?")
        await speaking.wait_for_voices(2)
        gateway.ann.edit(question, "And in a month?")  # the answer is another one, and so is its voice
        await speaking.wait_for_other_voice()
    async with (
        open_database(gateway.settings.database_url) as database,
        database.read_transaction() as tx,
    ):
        rows = (await tx.execute(select(speeches).order_by(speeches.c.turn))).all()
        files = (await tx.execute(select(outbox_files.c.kind, outbox_files.c.file_id))).all()
        turn = await load_steps(tx, rows[0].turn, with_texts=False)
    assert turn is not None
    intervals = build_tables(turn, {})[0]
    assert intervals.rows[-1][0].value == "speech"
    shown = "\n".join(map(str, render_lines(turn, {})))
    assert "voice: read out, in " in shown
    report = await render_report(gateway.settings.database_url, ReportOptions(), now=time.time())
    assert any(str(line).startswith("Voice: 3 answers read out, 0 not;") for line in report)
    assert [(row.chars, row.outcome) for row in rows] == [(len(SPOKEN), "ok")] * 3
    assert all(row.wanted_at <= row.began_at <= row.ended_at for row in rows)
    assert [(file.kind, bool(file.file_id)) for file in files] == [("voice", True)] * 3


async def test_where_telegram_refuses_voice_messages_the_chat_is_told_once(tmp_path: Path):
    async with open_speaking(tmp_path) as speaking:
        gateway = speaking.gateway
        gateway.ann.send("Hello")
        await gateway.wait_for_texts()
        gateway.api.chat(ADMIN).takes_voice = False
        for count in (3, 4):
            gateway.ann.send_voice(content=b"OggS")
            texts = await gateway.wait_for_texts(count)
        assert texts.count(VOICE_REFUSED) == 1
        gateway.api.chat(ADMIN).takes_voice = True
        gateway.ann.send("/voice on")
        await gateway.wait_for_texts(5)  # what follows does not wait for a command
        gateway.ann.send("Hello")
        await speaking.wait_for_voices()
    assert len(speaking.sound.speech_requests) == 2


async def wait_for_speeches(gateway: GatewayHarness, count: int) -> None:
    """Wait until it is stored of so many answers whether they could be read out."""
    ended = select(speeches.c.turn).where(speeches.c.outcome.is_not(None))
    async with open_database(gateway.settings.database_url) as database, asyncio.timeout(60):
        while True:
            async with database.read_transaction() as tx:
                if len((await tx.execute(ended)).all()) == count:
                    return
            await asyncio.sleep(0.02)


async def test_a_service_that_fails_leaves_the_text_and_admins_hear_of_it_once(tmp_path: Path):
    """Once a failure: also of the next one, where the service worked only after a restart."""
    recovery = "I can speak my answers again."
    failure = "I can't speak my answers: the voice service failed (it didn't send playable Opus audio)."
    async with open_database(place_database(tmp_path)) as database, database.transaction() as tx:
        await record_if_changed(tx, "speech", "It failed before this start.", now=1.0)
    async with open_speaking(tmp_path) as speaking:
        gateway = speaking.gateway
        endings = [CHIME, b"RIFF-wav", b"<html>", b"", CHIME]

        async def speak(_: SpeechRequest) -> bytes:
            return endings[len(speaking.sound.speech_requests) - 1]

        speaking.sound.synthesize = speak
        for count, notice in enumerate((recovery, failure, failure, failure, recovery), 1):
            gateway.ann.send_voice(content=b"OggS")
            await speaking.wait_for_requests(count)
            await wait_for_speeches(gateway, count)
            await gateway.api.wait_until(partial(has_said, gateway, notice))
        await speaking.wait_for_voices(2)
        await gateway.api.wait_until(lambda: gateway.texts().count(recovery) == 2)
        texts = gateway.texts()
    assert texts.count(failure) == 1
    assert sum(text.startswith("It is low") for text in texts) == 5


async def test_without_a_voice_service_voice_messages_are_answered_by_text_alone(tmp_path: Path):
    async with open_speaking(tmp_path, speech_url=None) as speaking:
        speaking.gateway.ann.send_voice(content=b"OggS")
        await speaking.gateway.wait_for_texts()
        speaking.gateway.ann.send("/voice on")
        assert (await speaking.gateway.wait_for_texts(2))[1] == "I can't speak here: no voice is set up."
    assert not speaking.voices()
    assert not speaking.sound.speech_requests


async def test_a_chat_is_asked_before_sound_or_what_is_to_be_spoken_leaves_the_network(tmp_path: Path):
    async with open_speaking(tmp_path, host="0.0.0.0") as speaking:  # no address of ours
        gateway = speaking.gateway

        def tap(label: str) -> None:
            message = gateway.api.chat(ADMIN).bot_messages[-1]
            [data] = [button["callback_data"] for button in message.buttons if button["text"] == label]
            gateway.ann.tap(message.message_id, data)

        gateway.ann.send("/help")
        (commands,) = await gateway.wait_for_texts()
        assert "/consent" in commands
        assert "/deep" not in commands
        gateway.ann.send_voice(content=b"OggS")
        question = (await gateway.wait_for_texts(2))[-1]
        assert "I'd send them to 0.0.0.0, outside our network." in question
        tap("No")
        kept = (await gateway.wait_for_texts(3))[-1]
        assert kept == f"I couldn't use your voice message: {SOUND_KEPT_HERE}."
        refusal = "I don't send voice messages, or the answers I speak, to 0.0.0.0."
        await gateway.api.wait_until(lambda: gateway.texts()[1].startswith(refusal))
        gateway.ann.send("/voice on")
        await gateway.wait_for_texts(4)
        gateway.ann.send("Hello")
        await gateway.wait_for_texts(5)
        gateway.ann.send("/consent")
        await gateway.wait_for_texts(6)
        assert not speaking.sound.audio_uploads
        assert not speaking.sound.speech_requests
        tap("Yes")
        await gateway.api.wait_until(lambda: "may be sent" in gateway.texts()[-1])
        gateway.ann.send_voice(content=b"OggS")
        await speaking.wait_for_voices()
        gateway.ann.send("/consent")
        await gateway.api.wait_until(lambda: "may be sent" in gateway.texts()[-1])
        tap("Send nothing there")
        await gateway.api.wait_until(lambda: "I don't send" in gateway.texts()[-1])
    assert len(speaking.sound.audio_uploads) == len(speaking.sound.speech_requests) == 1


async def test_a_voice_message_waits_for_the_answer_and_only_the_voice_is_asked_about(tmp_path: Path):
    async with open_speaking(tmp_path, host="0.0.0.0") as speaking:  # no address of ours
        gateway = speaking.gateway
        gateway.ann.send_voice(content=b"OggS")
        await gateway.wait_for_texts()
        message = gateway.api.chat(ADMIN).bot_messages[-1]
        gateway.ann.tap(message.message_id, message.buttons[0]["callback_data"])
        await speaking.wait_for_voices()
    assert len(speaking.sound.audio_uploads) == len(speaking.sound.speech_requests) == 1
    other = tmp_path / "other"
    other.mkdir()
    async with open_speaking(other, host="0.0.0.0", transcribe_url=None) as speaking:
        gateway = speaking.gateway
        gateway.ann.send("/voice on")
        await gateway.wait_for_texts()
        for count in (3, 4):
            gateway.ann.send("Hello")
            await gateway.wait_for_texts(count)
        questions = [text for text in gateway.texts() if "Is that OK?" in text]
    assert questions == [
        "To speak my answers, I'd send their text to 0.0.0.0, outside our network. Is that OK?"
    ]
    assert speaking.sound.speech_requests == []
