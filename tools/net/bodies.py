"""Reads the body of an HTTP response up to a bound, and what it is said to be.

Unpacks piece by piece, so that a small response cannot swell. Alone because pages and services both use it.
"""

import zlib
from email.message import Message

import httpx

from tools.base import ToolError

ACCEPT_ENCODING = "gzip, deflate"  # for the request; a response packed otherwise is refused
MAX_HEADER_CHARS = 1000  # of one with parameters: each `;` is sought in all the rest
HEADER_ERRORS = (ValueError, TypeError, LookupError)  # what `email` raises for malformed parameters


async def read_body(response: httpx.Response, max_bytes: int, subject: str = "The answer") -> bytes:
    """The first `max_bytes` bytes, unpacked; the rest is left unread.

    Raises ToolError, whose text calls the response `subject`.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(f"{subject} is packed in a way that cannot be read.")
    unpacker = None
    if encoding not in ("identity", ""):
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    try:
        async for piece in response.aiter_raw():
            body += piece if unpacker is None else unpacker.decompress(piece, max_bytes - len(body))
            if len(body) >= max_bytes or (unpacker is not None and unpacker.eof):
                break
    except zlib.error as error:
        raise ToolError(f"{subject} is packed in a way that cannot be read.") from error
    del body[max_bytes:]
    return bytes(body)


def parse_content_type(text: str) -> tuple[str, str]:
    """The media type and the charset of a Content-Type, each empty where it does not say."""
    if not text:
        return "", ""
    header = Message()
    header["content-type"] = text[:MAX_HEADER_CHARS]
    try:
        return header.get_content_type(), header.get_content_charset() or ""
    except HEADER_ERRORS:
        return header.get_content_type(), ""
