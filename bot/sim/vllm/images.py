"""The pictures of a request: which are refused, and how the prefix cache distinguishes them.

Pure. A picture is recognized by its first bytes only; what it shows does not matter here.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence

from bot.sim.gemma.tokens import IMAGE_MARKER
from bot.sim.vllm.errors import Json, ServerInfo, VllmRefusal

_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF", b"BM")


def check_images(body: Json, server_info: ServerInfo) -> None:
    """Refuse pictures that the server cannot use.

    A text-only model refuses all, any other more than its limit; addresses cannot be fetched here; the bytes
    must be a picture.
    """
    limit = server_info.profile.max_images
    for number, url in enumerate(_image_urls(body), start=1):
        if not server_info.profile.pictures:
            raise VllmRefusal(400, f"{server_info.model} is not a multimodal model")
        if limit is not None and number > limit:
            raise VllmRefusal(400, f"At most {limit} image(s) may be provided in one prompt.")
        if not url.startswith("data:"):
            raise VllmRefusal(
                422, "Failed to fetch the image: the address cannot be reached.", "UnprocessableEntityError"
            )
        if not _image_bytes(url).startswith(_IMAGE_SIGNATURES):
            raise VllmRefusal(400, "Failed to load image: cannot identify image file")


def image_digests(body: Json) -> list[str]:
    """One short name for each picture of the request, in prompt order; equal bytes have equal names."""
    return [hashlib.sha256(_image_bytes(url)).hexdigest()[:16] for url in _image_urls(body)]


def tag_image_blocks(blocks: Sequence[str], digests: Sequence[str], image_tokens: int) -> list[str]:
    """Blocks of a prompt, tagged with the pictures they hold a piece of.

    The tokens of all pictures look alike.
    """
    tagged = []
    seen = 0
    for block in blocks:
        count = block.count(IMAGE_MARKER)
        if count:
            covered = range(seen // image_tokens, -(-(seen + count) // image_tokens))
        else:
            covered = range(0)
        tagged.append(block + "".join(digests[covered.start : covered.stop]))
        seen += count
    return tagged


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
