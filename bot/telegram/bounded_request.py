"""The HTTP client of the Bot API's library, with an end to every call.

The library's own limits are for a single read or write: an answer that comes byte by byte would never end.
"""

import asyncio
from typing import Any

from telegram.error import TimedOut
from telegram.request import HTTPXRequest, RequestData

_SLOWEST_BYTES_A_SECOND = 100_000  # of an upload


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
