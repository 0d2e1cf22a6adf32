"""Watches whether the model endpoint is up, and logs when it comes and goes.

Owns the pace of the looks. It asks `/health`, so it also knows while nobody writes.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from bot.errors import KeyRefused, ServerAway
from bot.llm import server_api

SECONDS_WHILE_UP = 30.0  # between two looks
SECONDS_WHILE_AWAY = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedEndpoint:
    """The endpoint as the settings name it; `model` None: the first it lists."""

    url: str
    api_key: str | None
    model: str | None
    seats: int


class EndpointWatch:
    """Runs until cancelled. `is_up` is False until the endpoint has answered.

    `server`: what it serves and in which version, as it said last (empty: not yet). `since`: when it came or
    went (epoch seconds; None before the first look).
    """

    def __init__(
        self,
        endpoint: WatchedEndpoint,
        *,
        seconds_while_up: float = SECONDS_WHILE_UP,
        seconds_while_away: float = SECONDS_WHILE_AWAY,
    ) -> None:
        self._endpoint = endpoint
        self._seconds_while_up = seconds_while_up
        self._seconds_while_away = seconds_while_away
        self.is_up = False
        self.server = ""
        self.since: float | None = None

    @property
    def url(self) -> str:
        """The endpoint's address."""
        return self._endpoint.url

    async def run(self) -> None:
        """Look now and then until cancelled; log the first look and each change."""
        is_first = True
        while True:
            was_up = self.is_up
            self.is_up = await self._look(is_expected_up=was_up)
            if is_first or self.is_up != was_up:
                self.since = time.time()
            if not self.is_up and (is_first or was_up):
                log.warning(
                    "the model endpoint at %s does not answer; messages wait for it",
                    self._endpoint.url,
                    extra={"action": "endpoint.away"},
                )
            is_first = False
            pause = self._seconds_while_up if self.is_up else self._seconds_while_away
            await asyncio.sleep(pause)

    async def _look(self, *, is_expected_up: bool) -> bool:
        """Whether the endpoint is up; if that is news, log what it serves."""
        url = self._endpoint.url
        if not await server_api.check_health(url):
            return False
        if is_expected_up:
            return True
        try:
            self.server = await self._describe_server()
        except ServerAway:
            return False
        log.info(
            "the model endpoint at %s answers: %s, %d seats",
            url,
            self.server,
            self._endpoint.seats,
            extra={"action": "endpoint.answers"},
        )
        return True

    async def _describe_server(self) -> str:
        """The model and the server's release, as far as they are known. Raises ServerAway."""
        try:
            models = await server_api.fetch_models(self._endpoint.url, self._endpoint.api_key)
        except KeyRefused as refused:
            return str(refused)
        version = await server_api.fetch_version(self._endpoint.url)
        model = self._endpoint.model or next((model.name for model in models), "no model")
        if version is None:
            return model
        return f"{model}, vLLM {version}"
