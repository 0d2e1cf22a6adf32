"""Reads the body of an HTTP answer up to a bound, unpacked here piece by piece, so that a small answer cannot
swell.
"""

import zlib

import httpx

from tools.base import ToolError

ACCEPT_ENCODING = "gzip, deflate"  # to be asked for; an answer packed otherwise is refused


async def read_body(response: httpx.Response, max_bytes: int, subject: str = "The answer") -> bytes:
    """The first `most` bytes, unpacked; what is beyond is left unread. Raises ToolError, calling it `what`."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ToolError(f"{subject} is packed in a way that cannot be read.")
    if packed in ("identity", ""):
        unpacker = None
    else:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    body = bytearray()
    try:
        async for piece in response.aiter_raw():
            body += piece if unpacker is None else unpacker.decompress(piece, max_bytes - len(body))
            if len(body) >= max_bytes or (unpacker is not None and unpacker.eof):
                break
    except zlib.error as error:
        raise ToolError(f"{subject} is packed in a way that cannot be read.") from error
    return bytes(body[:max_bytes])
