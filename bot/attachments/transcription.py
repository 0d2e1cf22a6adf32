"""Transcribes sound by an OpenAI-compatible endpoint; the only module that calls it.

Knows nothing of where the sound came from. Translates all errors of the endpoint.
"""

import asyncio
import logging
import ssl

import httpx

from bot.errors import AttachmentUnusable
from bot.translations.translator import translatable

AWAY = translatable("the service that writes sound down does not answer; please try later or write it")
SILENT = translatable("no words were heard in it")
SLOW = translatable("writing it down took too long")
REFUSED = translatable("the service that writes sound down did not take it")

_TRANSCRIPT_SECONDS = 120.0
_HTTP_TIMEOUT = httpx.Timeout(_TRANSCRIPT_SECONDS, connect=10.0)

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
        self._url = f"{url}/audio/transcriptions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_seconds = timeout_seconds
        # Loading the certificates blocks the event loop: once is enough, and not at all without encryption.
        self._verify: ssl.SSLContext | bool = False
        if not url.startswith("http://"):
            self._verify = httpx.create_ssl_context(trust_env=False)

    async def transcribe(self, body: bytes, name: str, media_type: str) -> str:
        """The spoken words; many services take the format from the ending of `name`.

        Raises AttachmentUnusable.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._post_audio(body, name, media_type)
        except (TimeoutError, httpx.ReadTimeout):
            raise AttachmentUnusable(SLOW) from None
        except httpx.HTTPError as error:
            _log.warning("no transcript: %s", type(error).__name__, extra={"action": "sound.away"})
            raise AttachmentUnusable(AWAY) from None
        if not response.is_success:
            _log.warning("no transcript: HTTP %d", response.status_code, extra={"action": "sound.refused"})
            is_client_error = 400 <= response.status_code < 500
            raise AttachmentUnusable(REFUSED if is_client_error else AWAY)
        text = _parse_text(response)
        if text is None:
            _log.warning("no transcript: not the protocol", extra={"action": "sound.unreadable"})
            raise AttachmentUnusable(AWAY)
        if not text:
            raise AttachmentUnusable(SILENT)
        return text

    async def _post_audio(self, body: bytes, name: str, media_type: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=_HTTP_TIMEOUT, trust_env=False, verify=self._verify) as client:
            return await client.post(
                self._url,
                headers=self._headers,
                data={"model": self._model, "response_format": "json"},
                files={"file": (name, body, media_type)},
            )


def _parse_text(response: httpx.Response) -> str | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        return None
    text: str = answer["text"]
    return text.encode("utf-8", "replace").decode().strip()
