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

MOST_BYTES = 20 * 1024 * 1024  # Telegram hands no larger file to bots
TOO_LARGE = "it is larger than 20 MB, and Telegram does not hand such files to bots"
GONE = "Telegram does not have it any more; please send it again"
AWAY = "Telegram did not hand it over; please send it again"

_SECONDS = 60.0
_READ_SECONDS = 20.0  # without a byte
_PAUSES = (0.5, 2.0)  # between attempts

_log = logging.getLogger(__name__)


class Files:
    """Files of one bot. `seconds` bounds one fetch, with all its attempts."""

    def __init__(self, bot: Bot, *, seconds: float = _SECONDS) -> None:
        self._bot = bot
        self._seconds = seconds

    async def fetch(self, file_id: str) -> bytes:
        """All of a file. Raises AttachmentUnusable."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._persistently(file_id)
        except TimeoutError:
            raise AttachmentUnusable(AWAY) from None

    async def _persistently(self, file_id: str) -> bytes:
        for pause in (*_PAUSES, None):
            try:
                return await self._once(file_id)
            except (BadRequest, Forbidden, InvalidToken) as error:
                raise AttachmentUnusable(TOO_LARGE if "too big" in error.message.lower() else GONE) from None
            except (TelegramError, *wire.UNREADABLE) as error:
                # Some of these errors hold the address, which holds the token, so only the class is told.
                _log.info("a file was not fetched: %s", type(error).__name__, extra={"action": "files.again"})
                if pause is None:
                    break
                await asyncio.sleep(outcomes.seconds(error) if isinstance(error, RetryAfter) else pause)
        raise AttachmentUnusable(AWAY)

    async def _once(self, file_id: str) -> bytes:
        file = await self._bot.get_file(file_id, read_timeout=_READ_SECONDS)
        if (file.file_size or 0) > MOST_BYTES:
            raise AttachmentUnusable(TOO_LARGE)
        return bytes(await file.download_as_bytearray(read_timeout=_READ_SECONDS))
