"""Opens what people sent, in processes that can be killed: pictures become small, papers and text files text.

What a file is, its content says; names and what Telegram calls it are not asked.
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

MAX_PROCESSES = 4  # processes; each may take the memory below
MAX_PAGES = 500
MAX_CHARACTERS = 1_000_000  # that are kept of one document
_MEMORY = 768 * 1024 * 1024
_MAX_ANSWER_BYTES = (
    12 * MAX_CHARACTERS + 64 * 1024
)  # JSON writes a sign beyond the first 65,536 in twelve bytes

_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_PDF_HEADER_BYTES = 1024  # bytes; some programs write something before a PDF
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
    """Seconds that a picture and a document may take before they are given up."""

    image_seconds: float = 15.0
    document_seconds: float = 20.0


class AttachmentReader:
    """Reads files. What cannot be read raises AttachmentUnusable; cancelling kills the process at work."""

    def __init__(self, timeouts: ReadTimeouts = ReadTimeouts()) -> None:
        self._timeouts = timeouts
        self._process_slots = asyncio.Semaphore(MAX_PROCESSES)

    async def read_image(self, body: bytes, name: str = "") -> Attachment:
        """A picture as the model gets it."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        found = await self._run_in_sandbox(shrink_image, body, self._timeouts.image_seconds)
        match found.get("refused"):
            case "unknown":
                raise AttachmentUnusable(NOT_AN_IMAGE)
            case "large":
                raise AttachmentUnusable(
                    f"it has {found['points'] // 1_000_000} million points, too many to be opened"
                )
        return Attachment("image", name, found["media_type"], data=base64.b64decode(found["data"]))

    async def read_file(self, body: bytes, name: str) -> Attachment | ExtractedDocument:
        """A file of whatever kind: a picture as the model gets it, or the text of a document."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        if body.startswith(_IMAGE_SIGNATURES) or (body.startswith(b"RIFF") and body[8:12] == b"WEBP"):
            return await self.read_image(body, name)
        if b"%PDF-" in body[:_PDF_HEADER_BYTES]:
            return await self._read_pdf(body, name)
        return await self._read_text(body, name)

    async def _read_pdf(self, body: bytes, name: str) -> ExtractedDocument:
        patience = self._timeouts.document_seconds
        # Half of the time for whole pages, so that what is read by then is not lost with a page that never
        # ends.
        bounds = {"pages": MAX_PAGES, "characters": MAX_CHARACTERS, "within": patience / 2}
        found = await self._run_in_sandbox(extract_pdf_text, body, patience, **bounds)
        match found.get("refused"):
            case "locked":
                raise AttachmentUnusable(LOCKED)
            case "empty":
                raise AttachmentUnusable(NO_TEXT)
        return ExtractedDocument(name, "application/pdf", tuple(found["texts"]), page_count=found["of"])

    async def _read_text(self, body: bytes, name: str) -> ExtractedDocument:
        if body.startswith(_RTF_SIGNATURE):
            raise AttachmentUnusable(OTHER_KIND)
        found = await self._run_in_sandbox(
            extract_plain_text, body, self._timeouts.document_seconds, characters=MAX_CHARACTERS
        )
        if "refused" in found:
            raise AttachmentUnusable(OTHER_KIND)
        if not found["text"].strip():
            raise AttachmentUnusable(EMPTY)
        return ExtractedDocument(
            name, "text/plain", (found["text"],), char_count=found["length"], is_encoding_known=found["sure"]
        )

    async def _run_in_sandbox(
        self, work: Callable[..., Any], body: bytes, seconds: float, **arguments: Any
    ) -> dict[str, Any]:
        limits = SandboxLimits(
            wall_seconds=seconds,
            cpu_seconds=max(1, int(seconds)),
            memory_bytes=_MEMORY,
            max_result_bytes=_MAX_ANSWER_BYTES,
        )
        try:
            async with self._process_slots:
                found: dict[str, Any] = await run_in_sandbox(work, body, limits, **arguments)
        except SandboxStopped as stopped:
            failed = str(stopped).startswith("it failed") and "MemoryError" not in str(stopped)
            raise AttachmentUnusable(DAMAGED if failed else TOO_HEAVY) from stopped
        return found
