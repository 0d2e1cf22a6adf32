"""The pictures of a request: which are refused, and how the prefix cache tells one from another.

Pure. A picture is known by its first bytes only; what it shows is nobody's business here.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence

from bot.sim.gemma.tokens import IMAGE, IMAGE_TOKENS
from bot.sim.vllm.errors import Json, Refusal, Server

_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")


def check_pictures(body: Json, server: Server) -> None:
    """A model that only reads refuses them all; an address cannot be fetched from here; the bytes must be a
    picture.
    """
    for url in _urls(body):
        if not server.profile.pictures:
            raise Refusal(400, f"{server.model} is not a multimodal model")
        if not url.startswith("data:"):
            raise Refusal(
                422, "Failed to fetch the image: the address cannot be reached.", "UnprocessableEntityError"
            )
        if not _bytes(url).startswith(_BEGINNINGS):
            raise Refusal(400, "Failed to load image: cannot identify image file")


def pictures(body: Json) -> list[str]:
    """One short name for each picture of the request, in the order of the prompt; the same bytes have the
    same name.
    """
    return [hashlib.sha256(_bytes(url)).hexdigest()[:16] for url in _urls(body)]


def told_apart(blocks: Sequence[str], names: Sequence[str]) -> list[str]:
    """Blocks of a prompt, with the names of the pictures they hold a piece of: all pictures' tokens look
    alike.
    """
    told = []
    seen = 0
    for block in blocks:
        count = block.count(IMAGE)
        if count:
            here = range(seen // IMAGE_TOKENS, -(-(seen + count) // IMAGE_TOKENS))
        else:
            here = range(0)
        told.append(block + "".join(names[here.start : here.stop]))
        seen += count
    return told


def _urls(body: Json) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                yield str((part.get("image_url") or {}).get("url", ""))


def _bytes(url: str) -> bytes:
    head, _, data = url.partition(",")
    try:
        return base64.b64decode(data, validate=True) if head.endswith(";base64") else b""
    except binascii.Error:
        return b""
