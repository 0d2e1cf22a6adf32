"""One call of an OpenAI-compatible service for sound, bounded in time and in what it answers.

Transcription and speech use it. Translates all errors of the service.
"""

import asyncio
import ssl
from typing import Any, Literal

import httpx

_CONNECT_SECONDS = 10.0

ServiceFault = Literal["slow", "away", "too long", "refused"]


class SoundServiceFailed(Exception):
    """The service did not do it; `detail` is the error behind that, `status` the one of HTTP, 0: none."""

    def __init__(self, fault: ServiceFault, detail: str = "", status: int = 0) -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail
        self.status = status


class SoundService:
    """The service at `url` (which ends with `/v1`). `timeout_seconds` bounds one call."""

    def __init__(self, url: str, api_key: str | None, timeout_seconds: float) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_seconds = timeout_seconds
        # Loading the certificates blocks the event loop: once is enough, and not at all without encryption.
        self._verify: ssl.SSLContext | bool = False
        if not url.startswith("http://"):
            self._verify = httpx.create_ssl_context(trust_env=False)

    async def post(self, route: str, max_bytes: int, **content: Any) -> bytes:
        """The answer to what httpx calls `json`, or `data` and `files`. Raises SoundServiceFailed."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._post(route, max_bytes, content)
        except (TimeoutError, httpx.ReadTimeout):
            raise SoundServiceFailed("slow") from None
        except httpx.HTTPError as error:
            raise SoundServiceFailed("away", type(error).__name__) from None

    async def _post(self, route: str, max_bytes: int, content: dict[str, Any]) -> bytes:
        timeout = httpx.Timeout(self._timeout_seconds, connect=_CONNECT_SECONDS)
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False, verify=self._verify) as client,
            client.stream("POST", f"{self._url}{route}", headers=self._headers, **content) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > max_bytes:
                    raise SoundServiceFailed("too long")
            if not response.is_success:
                raise SoundServiceFailed("refused", f"HTTP {response.status_code}", response.status_code)
            return bytes(body)
