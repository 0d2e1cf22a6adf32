"""Has a text read out by an OpenAI-compatible endpoint, as the Ogg Opus that Telegram takes for voice.

Knows nothing of where the text came from. Translates all errors of the endpoint.
"""

from bot.attachments.sound_service import ServiceFault, SoundService, SoundServiceFailed
from bot.errors import SpeechFailed
from bot.settings import Settings, reveal
from bot.translations.translator import translatable

_SPEECH_SECONDS = 120.0
_MAX_SPEECH_BYTES = 5 << 20  # of the longest text some 1.5 MB, at the 128 kbit/s of a generous server
_PAGE_MARK = b"OggS"
_CODEC_MARK = b"OpusHead"
_CODEC_MARK_WITHIN = 64  # bytes of the first page
_PLACE_IN_PAGE = slice(6, 14)  # where a page says how many samples of sound end with it

_REASONS: dict[ServiceFault, str] = {
    "slow": translatable("it took too long"),
    "away": translatable("it doesn't answer"),
    "too long": translatable("it sent far too much"),
    "refused": translatable("it answered HTTP {status}"),
}


class SpeechSynthesizer:
    """Uses the `model` and `voice` at `url` (which ends with `/v1`). `timeout_seconds` bounds one text."""

    def __init__(
        self,
        url: str,
        model: str,
        voice: str,
        api_key: str | None = None,
        *,
        timeout_seconds: float = _SPEECH_SECONDS,
    ) -> None:
        self._service = SoundService(url, api_key, timeout_seconds)
        self._options = {"model": model, "voice": voice, "response_format": "opus"}

    async def synthesize(self, text: str) -> bytes:
        """The text as Ogg Opus. Raises SpeechFailed."""
        try:
            sound = await self._service.post(
                "/audio/speech", _MAX_SPEECH_BYTES, json={**self._options, "input": text}
            )
        except SoundServiceFailed as failed:
            raise SpeechFailed(_REASONS[failed.fault], status=failed.status) from None
        if not is_ogg_opus(sound):
            raise SpeechFailed(translatable("it didn't send playable Opus audio"))
        return sound


def build_synthesizer(settings: Settings) -> SpeechSynthesizer | None:
    """The service that the settings name; None if they name none."""
    if settings.speech_url is None:
        return None
    api_key = reveal(settings.speech_api_key)
    return SpeechSynthesizer(settings.speech_url, settings.speech_model, settings.speech_voice, api_key)


def is_ogg_opus(sound: bytes) -> bool:
    """Whether this is Ogg Opus that is not empty; what it is said to be does not count."""
    if not sound.startswith(_PAGE_MARK) or _CODEC_MARK not in sound[:_CODEC_MARK_WITHIN]:
        return False
    last_page = sound[sound.rfind(_PAGE_MARK) :]
    return int.from_bytes(last_page[_PLACE_IN_PAGE], "little", signed=True) > 0
