"""The pictures of a request: which are refused, and how the prefix cache tells one from another.

Pure. A picture is known by its first bytes only; what it shows is nobody's business here.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence

from bot.sim.gemma.tokens import IMAGE_MARKER, IMAGE_TOKENS
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal

_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")


def check_images(body: Json, server_info: ServerInfo) -> None:
    """A model that only reads refuses them all; an address cannot be fetched from here; the bytes must be a
    picture.
    """
    for url in _image_urls(body):
        if not server_info.profile.pictures:
            raise VllmRefusal(400, f"{server_info.model} is not a multimodal model")
        if not url.startswith("data:"):
            raise VllmRefusal(
                422, "Failed to fetch the image: the address cannot be reached.", "UnprocessableEntityError"
            )
        if not _image_bytes(url).startswith(_IMAGE_SIGNATURES):
            raise VllmRefusal(400, "Failed to load image: cannot identify image file")


def image_digests(body: Json) -> list[str]:
    """One short name for each picture of the request, in the order of the prompt; the same bytes have the
    same name.
    """
    return [hashlib.sha256(_image_bytes(url)).hexdigest()[:16] for url in _image_urls(body)]


def tag_image_blocks(blocks: Sequence[str], digests: Sequence[str]) -> list[str]:
    """Blocks of a prompt, with the names of the pictures they hold a piece of: all pictures' tokens look
    alike.
    """
    told = []
    seen = 0
    for block in blocks:
        count = block.count(IMAGE_MARKER)
        if count:
            here = range(seen // IMAGE_TOKENS, -(-(seen + count) // IMAGE_TOKENS))
        else:
            here = range(0)
        told.append(block + "".join(digests[here.start : here.stop]))
        seen += count
    return told


def _image_urls(body: Json) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                yield str((part.get("image_url") or {}).get("url", ""))


def _image_bytes(url: str) -> bytes:
    head, _, data = url.partition(",")
    try:
        return base64.b64decode(data, validate=True) if head.endswith(";base64") else b""
    except binascii.Error:
        return b""
