"""The body of the speech route: a text to read out, checked as OpenAI documents it and Kokoro-FastAPI does.

Pure. A function that the caller may set returns the sound.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot.sim.vllm.errors import Json, invalid_body, missing_field

MAX_INPUT_CHARACTERS = 4096
MEDIA_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
CHIME = (Path(__file__).parent / "chime.ogg").read_bytes()
"""Three notes as Ogg Opus of 1.6 seconds: what is spoken where nobody sets another voice."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text to read out, and how."""

    input: str
    model: str
    voice: str
    response_format: str


Synthesizer = Callable[[SpeechRequest], Awaitable[bytes]]


async def chime(_: SpeechRequest) -> bytes:
    """The default voice: three notes, whatever is to be said."""
    return CHIME


def parse_speech_body(body: Json) -> SpeechRequest:
    """The request; raises VllmRefusal for what the documents do not allow."""
    for name in ("model", "input", "voice"):
        if name not in body:
            raise missing_field(f"body.{name}", body)
        if not isinstance(body[name], str):
            raise _refuse(name, "string_type", "Input should be a valid string")
    if not 0 < len(body["input"].strip()) <= MAX_INPUT_CHARACTERS:
        reason = f"String should have 1 to {MAX_INPUT_CHARACTERS} characters"
        raise _refuse("input", "string_length", reason)
    response_format = body.get("response_format", "mp3")
    if response_format not in MEDIA_TYPES:
        raise _refuse("response_format", "literal_error", f"Input should be one of {[*MEDIA_TYPES]}")
    return SpeechRequest(body["input"], body["model"], body["voice"], response_format)


def _refuse(name: str, kind: str, message: str) -> Exception:
    return invalid_body({"type": kind, "loc": f"body.{name}", "msg": message})
