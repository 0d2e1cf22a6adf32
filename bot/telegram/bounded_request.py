"""The HTTP clients of the Bot API's library, with an end to every call, and one for getUpdates.

The library's own limits are for a single read or write: an answer that comes byte by byte would never end.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

from telegram.error import TelegramError, TimedOut
from telegram.request import HTTPXRequest, RequestData

_SLOWEST_BYTES_A_SECOND = 100_000  # of an upload
_UPDATE_PREFIX = '{"update_id":'

log = logging.getLogger(__name__)


class BoundedRequest(HTTPXRequest):
    """Ends each call after its read timeout, and an upload after as much more as its size may need."""

    async def do_request(  # noqa: PLR0913  # the library's own arguments
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        write_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        connect_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        pool_timeout: Any = HTTPXRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Make the call. Raises TimedOut when it takes too long; it may have had its effect."""
        if read_timeout is HTTPXRequest.DEFAULT_NONE:
            read_timeout = self.read_timeout
        seconds = read_timeout + _count_bytes(request_data) / _SLOWEST_BYTES_A_SECOND
        timeouts = (read_timeout, write_timeout, connect_timeout, pool_timeout)
        try:
            async with asyncio.timeout(seconds):
                return await super().do_request(url, method, request_data, *timeouts)
        except TimeoutError:
            raise TimedOut from None


def _count_bytes(request_data: RequestData | None) -> int:
    """The bytes of the files in a request."""
    if request_data is None or not request_data.contains_files:
        return 0
    contents = (content for _, content, _ in request_data.multipart_data.values())
    return sum(len(content) for content in contents if isinstance(content, bytes))


class TolerantPollRequest(BoundedRequest):
    """The connections of getUpdates: of an answer with a broken update, only that one is lost.

    It has no readable number, so it is acknowledged together with the next one behind it.
    """

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Parse an answer; if it is not valid JSON, return the updates in it that are.

        Raises TelegramError if there are none.
        """
        try:
            return HTTPXRequest.parse_json_payload(payload)
        except (TelegramError, RecursionError) as error:
            updates = list(parse_whole_updates(payload.decode("utf-8", "replace")))
            if not updates:
                raise TelegramError("what answered is no Bot API") from error
            log.warning("an update was broken and is left out", extra={"action": "polls.broken"})
            return {"ok": True, "result": updates}


def parse_whole_updates(text: str) -> Iterator[dict[str, Any]]:
    """Yield the updates in an answer that can be parsed on their own."""
    decoder = json.JSONDecoder()
    start = text.find(_UPDATE_PREFIX)
    while start >= 0:
        try:
            update, end = decoder.raw_decode(text, start)
            yield update
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find(_UPDATE_PREFIX, end)
