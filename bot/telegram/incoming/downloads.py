"""Fetches from Telegram what came with messages; translates everything that can go wrong on the way.

Knows nothing of what the files are. Fetching may be repeated, and is, while there is time.
"""

import asyncio
import logging

from telegram import Bot
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError

from bot.errors import AttachmentUnusable
from bot.telegram import client as wire
from bot.telegram import outcomes

MAX_BYTES = 20 * 1024 * 1024  # Telegram hands no larger file to bots
FILE_TOO_LARGE = "it is larger than 20 MB, and Telegram does not hand such files to bots"
FILE_GONE = "Telegram does not have it any more; please send it again"
FETCH_FAILED = "Telegram did not hand it over; please send it again"

_FETCH_TIMEOUT_SECONDS = 60.0
_READ_TIMEOUT_SECONDS = 20.0  # without a byte
_BACKOFF_SECONDS = (0.5, 2.0)  # between attempts

_log = logging.getLogger(__name__)


class FileDownloader:
    """Files of one bot. `seconds` bounds one fetch, with all its attempts."""

    def __init__(self, bot: Bot, *, timeout_seconds: float = _FETCH_TIMEOUT_SECONDS) -> None:
        self._bot = bot
        self._timeout_seconds = timeout_seconds

    async def fetch(self, file_id: str) -> bytes:
        """All of a file. Raises AttachmentUnusable."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._fetch_with_retries(file_id)
        except TimeoutError:
            raise AttachmentUnusable(FETCH_FAILED) from None

    async def _fetch_with_retries(self, file_id: str) -> bytes:
        for pause in (*_BACKOFF_SECONDS, None):
            try:
                return await self._fetch_once(file_id)
            except (BadRequest, Forbidden, InvalidToken) as error:
                raise AttachmentUnusable(
                    FILE_TOO_LARGE if "too big" in error.message.lower() else FILE_GONE
                ) from None
            except (TelegramError, *wire.UNREADABLE_ANSWER_ERRORS) as error:
                # Some of these errors hold the address, which holds the token, so only the class is told.
                _log.info("a file was not fetched: %s", type(error).__name__, extra={"action": "files.again"})
                if pause is None:
                    break
                await asyncio.sleep(
                    outcomes.get_retry_after(error) if isinstance(error, RetryAfter) else pause
                )
        raise AttachmentUnusable(FETCH_FAILED)

    async def _fetch_once(self, file_id: str) -> bytes:
        file = await self._bot.get_file(file_id, read_timeout=_READ_TIMEOUT_SECONDS)
        if (file.file_size or 0) > MAX_BYTES:
            raise AttachmentUnusable(FILE_TOO_LARGE)
        return bytes(await file.download_as_bytearray(read_timeout=_READ_TIMEOUT_SECONDS))
