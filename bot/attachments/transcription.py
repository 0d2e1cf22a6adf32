"""Transcribes sound by an OpenAI-compatible endpoint.

Knows nothing of where the sound came from. Translates all errors of the endpoint.
"""

import json
import logging

from bot.attachments.sound_service import SoundService, SoundServiceFailed
from bot.errors import AttachmentUnusable
from bot.settings import Settings, reveal
from bot.translations.translator import translatable

AWAY = translatable("the service that writes sound down does not answer; please try later or write it")
SILENT = translatable("no words were heard in it")
SLOW = translatable("writing it down took too long")
REFUSED = translatable("the service that writes sound down did not take it")

_TRANSCRIPT_SECONDS = 120.0
_MAX_ANSWER_BYTES = 4 << 20  # of hours of speech, with times

_log = logging.getLogger(__name__)


class Transcriber:
    """Uses the `model` at `url` (which ends with `/v1`). `timeout_seconds` bounds one transcript."""

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout_seconds: float = _TRANSCRIPT_SECONDS,
    ) -> None:
        self._service = SoundService(url, api_key, timeout_seconds)
        self._model = model

    async def transcribe(self, body: bytes, name: str, media_type: str) -> str:
        """The spoken words; many services take the format from the ending of `name`.

        Raises AttachmentUnusable.
        """
        form = {"model": self._model, "response_format": "json"}
        files = {"file": (name, body, media_type)}
        try:
            answer = await self._service.post(
                "/audio/transcriptions", _MAX_ANSWER_BYTES, data=form, files=files
            )
        except SoundServiceFailed as failed:
            if failed.fault == "slow":
                raise AttachmentUnusable(SLOW) from None
            action = "sound.refused" if failed.status else "sound.away"
            _log.warning("no transcript: %s", failed.detail, extra={"action": action})
            is_client_error = 400 <= failed.status < 500
            raise AttachmentUnusable(REFUSED if is_client_error else AWAY) from None
        text = _parse_text(answer)
        if text is None:
            _log.warning("no transcript: not the protocol", extra={"action": "sound.unreadable"})
            raise AttachmentUnusable(AWAY)
        if not text:
            raise AttachmentUnusable(SILENT)
        return text


def build_transcriber(settings: Settings) -> Transcriber | None:
    """The service that the settings name; None if they name none."""
    if settings.transcribe_url is None:
        return None
    api_key = reveal(settings.transcribe_api_key)
    return Transcriber(settings.transcribe_url, settings.transcribe_model, api_key)


def _parse_text(body: bytes) -> str | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        return None
    text: str = answer["text"]
    return text.encode("utf-8", "replace").decode().strip()
