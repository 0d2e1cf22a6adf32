"""Downloads files that came with messages from Telegram, and translates the errors of that.

Knows nothing of what the files are. A download is repeated while there is time.
"""

import asyncio
import logging
from collections.abc import Sequence

from telegram import Bot
from telegram.error import BadRequest, Forbidden, InvalidToken, RetryAfter, TelegramError

from bot.errors import AttachmentUnusable
from bot.telegram.client import UNREADABLE_ANSWER_ERRORS
from bot.telegram.outcomes import get_retry_after
from bot.translations.translator import translatable

MAX_BYTES = 20 * 1024 * 1024  # bots cannot download larger files
FILE_TOO_LARGE = translatable("it is larger than 20 MB, and Telegram does not hand such files to bots")
FILE_GONE = translatable("Telegram does not have it any more; please send it again")
FETCH_FAILED = translatable("Telegram did not hand it over; please send it again")

_FETCH_TIMEOUT_SECONDS = 60.0
_READ_TIMEOUT_SECONDS = 20.0  # without a byte
_BACKOFF_SECONDS = (0.5, 2.0)  # between attempts

_log = logging.getLogger(__name__)


class FileDownloader:
    """Downloads files with one bot. `timeout_seconds` bounds one fetch, with all its attempts."""

    def __init__(
        self,
        bot: Bot,
        *,
        timeout_seconds: float = _FETCH_TIMEOUT_SECONDS,
        backoff_seconds: Sequence[float] = _BACKOFF_SECONDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._bot = bot
        self._timeout_seconds = timeout_seconds
        self._backoff_seconds = backoff_seconds
        self._max_bytes = max_bytes

    async def fetch(self, file_id: str) -> bytes:
        """Return a whole file. Raises AttachmentUnusable."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._fetch_with_retries(file_id)
        except TimeoutError:
            raise AttachmentUnusable(FETCH_FAILED) from None

    async def _fetch_with_retries(self, file_id: str) -> bytes:
        for pause in (*self._backoff_seconds, None):
            try:
                return await self._fetch_once(file_id)
            except (BadRequest, Forbidden, InvalidToken) as error:
                if "too big" in error.message.lower():
                    raise AttachmentUnusable(FILE_TOO_LARGE) from None
                raise AttachmentUnusable(FILE_GONE) from None
            except (TelegramError, *UNREADABLE_ANSWER_ERRORS) as error:
                # Some of these errors hold the URL, which holds the token, so only the class is logged.
                _log.info("a file was not fetched: %s", type(error).__name__, extra={"action": "files.again"})
                if pause is None:
                    break
                await asyncio.sleep(get_retry_after(error) if isinstance(error, RetryAfter) else pause)
        raise AttachmentUnusable(FETCH_FAILED)

    async def _fetch_once(self, file_id: str) -> bytes:
        file = await self._bot.get_file(file_id, read_timeout=_READ_TIMEOUT_SECONDS)
        if (file.file_size or 0) > self._max_bytes:
            raise AttachmentUnusable(FILE_TOO_LARGE)
        return bytes(await file.download_as_bytearray(read_timeout=_READ_TIMEOUT_SECONDS))
