"""Opens files of users in killable processes: pictures are shrunk, PDFs and text files become text.

The content decides what a file is; its name and the type Telegram gives are ignored.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.images import shrink_image
from bot.attachments.text_extraction import extract_pdf_text, extract_plain_text
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

MAX_PROCESSES = 4  # at once; each may take the memory below
MAX_PAGES = 500
MAX_CHARACTERS = 1_000_000  # of one document
MAX_MEMORY_BYTES = 768 * 1024 * 1024  # of one process
_MAX_RESULT_BYTES = 12 * MAX_CHARACTERS + 64 * 1024  # JSON takes up to twelve bytes for a character

_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_PDF_HEADER_BYTES = 1024  # some programs write something before a PDF
_RTF_SIGNATURE = b"{\\rtf"

EMPTY = "it is empty"
DAMAGED = "it is damaged"
TOO_HEAVY = "opening it takes too much time or memory"
LOCKED = "it is locked with a password"
NOT_AN_IMAGE = "it is no picture that can be opened here; JPEG, PNG, WebP and GIF work"
NO_TEXT = "there is no text in it that can be read; if its pages are scanned, photos of them work"
OTHER_KIND = "files of this kind cannot be read here; pictures, PDFs and text files work"


@dataclass(frozen=True, slots=True)
class ReadTimeouts:
    """Seconds that a picture and a document may take."""

    image_seconds: float = 15.0
    document_seconds: float = 20.0


class AttachmentReader:
    """Reads files. Raises AttachmentUnusable for what cannot be read; cancelling kills the process."""

    def __init__(
        self, timeouts: ReadTimeouts = ReadTimeouts(), *, memory_bytes: int = MAX_MEMORY_BYTES
    ) -> None:
        self._timeouts = timeouts
        self._memory_bytes = memory_bytes
        self._process_slots = asyncio.Semaphore(MAX_PROCESSES)

    async def read_image(self, body: bytes, name: str = "") -> Attachment:
        """A picture as the model gets it."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        image = await self._run_in_sandbox(shrink_image, body, self._timeouts.image_seconds)
        match image.get("refused"):
            case "unknown":
                raise AttachmentUnusable(NOT_AN_IMAGE)
            case "large":
                millions = image["points"] // 1_000_000
                raise AttachmentUnusable(f"it has {millions} million points, too many to be opened")
        return Attachment("image", name, image["media_type"], data=base64.b64decode(image["data"]))

    async def read_file(self, body: bytes, name: str) -> Attachment | ExtractedDocument:
        """A file of any kind: a picture as the model gets it, or the text of a document."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        if body.startswith(_IMAGE_SIGNATURES) or (body.startswith(b"RIFF") and body[8:12] == b"WEBP"):
            return await self.read_image(body, name)
        if b"%PDF-" in body[:_PDF_HEADER_BYTES]:
            return await self._read_pdf(body, name)
        return await self._read_text(body, name)

    async def _read_pdf(self, body: bytes, name: str) -> ExtractedDocument:
        seconds = self._timeouts.document_seconds
        # Pages stop after half of the time, so that one that never ends does not lose those before it.
        page_bounds = {"pages": MAX_PAGES, "characters": MAX_CHARACTERS, "within": seconds / 2}
        document = await self._run_in_sandbox(extract_pdf_text, body, seconds, **page_bounds)
        match document.get("refused"):
            case "locked":
                raise AttachmentUnusable(LOCKED)
            case "empty":
                raise AttachmentUnusable(NO_TEXT)
        texts = tuple(document["texts"])
        return ExtractedDocument(name, "application/pdf", texts, page_count=document["of"])

    async def _read_text(self, body: bytes, name: str) -> ExtractedDocument:
        if body.startswith(_RTF_SIGNATURE):
            raise AttachmentUnusable(OTHER_KIND)
        document = await self._run_in_sandbox(
            extract_plain_text, body, self._timeouts.document_seconds, characters=MAX_CHARACTERS
        )
        if "refused" in document:
            raise AttachmentUnusable(OTHER_KIND)
        text = document["text"]
        if not text.strip():
            raise AttachmentUnusable(EMPTY)
        return ExtractedDocument(
            name,
            "text/plain",
            (text,),
            char_count=document["length"],
            is_encoding_known=document["sure"],
        )

    async def _run_in_sandbox(
        self, extract: Callable[..., Any], body: bytes, seconds: float, **arguments: Any
    ) -> dict[str, Any]:
        limits = SandboxLimits(
            wall_seconds=seconds,
            cpu_seconds=max(1, int(seconds)),
            memory_bytes=self._memory_bytes,
            max_result_bytes=_MAX_RESULT_BYTES,
        )
        try:
            async with self._process_slots:
                result: dict[str, Any] = await run_in_sandbox(extract, body, limits, **arguments)
        except SandboxStopped as error:
            is_damaged = str(error).startswith("it failed") and "MemoryError" not in str(error)
            raise AttachmentUnusable(DAMAGED if is_damaged else TOO_HEAVY) from error
        return result
