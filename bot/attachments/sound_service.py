"""One call of an OpenAI-compatible service for sound, bounded in time and in what it answers.

Transcription and speech use it. Translates all errors of the service.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, Literal

import httpx

_CONNECT_SECONDS = 10.0

ServiceFault = Literal["slow", "away", "too long"]


class SoundServiceFailed(Exception):
    """The service gave no answer; `detail` is the class of the error behind that."""

    def __init__(self, fault: ServiceFault, detail: str = "") -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail


@dataclass(frozen=True, slots=True)
class SoundAnswer:
    """What the service answered."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return httpx.codes.is_success(self.status)


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

    async def post(self, route: str, max_bytes: int, **content: Any) -> SoundAnswer:
        """Post what httpx calls `json`, or `data` and `files`. Raises SoundServiceFailed."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._post(route, max_bytes, content)
        except (TimeoutError, httpx.ReadTimeout):
            raise SoundServiceFailed("slow") from None
        except httpx.HTTPError as error:
            raise SoundServiceFailed("away", type(error).__name__) from None

    async def _post(self, route: str, max_bytes: int, content: dict[str, Any]) -> SoundAnswer:
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
            return SoundAnswer(response.status_code, bytes(body))
