"""Opens files of users in killable processes: pictures are shrunk, documents of all kinds become text.

Pages of a PDF that hold no text become pictures.

The content decides what a file is; its name and the type Telegram gives are ignored.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.images import AREA_PER_TOKEN, IMAGE_TOKENS, shrink_image
from bot.attachments.office_extraction import extract_office_text
from bot.attachments.pdf_extraction import extract_pdf_text, render_pdf_pages
from bot.attachments.text_extraction import extract_html_text, extract_plain_text
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from bot.translations.translator import translatable
from tools.net.readable import is_html_start
from tools.sandbox.process import SandboxLimits, SandboxStopped, run_in_sandbox

MAX_PROCESSES = 4  # at once; each may take the memory below
MAX_PAGES = 500
MAX_CHARACTERS = 1_000_000  # of one document
MAX_MEMORY_BYTES = 768 * 1024 * 1024  # of one process
_MAX_RESULT_BYTES = 12 * MAX_CHARACTERS + 64 * 1024  # JSON takes up to twelve bytes for a character
_MAX_PICTURE_BYTES = 4 * 1024 * 1024  # of a page, as text

_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_PDF_HEADER_BYTES = 1024  # some programs write something before a PDF
_RTF_SIGNATURE = b"{\\rtf"
_ZIP_SIGNATURE = b"PK\x03\x04"
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Office files before 2007, and all that are encrypted
_ENCRYPTED_ENTRY = "EncryptedPackage".encode("utf-16-le")
_HTML_START_BYTES = 16 * 1024  # a page may begin with a long comment

EMPTY = translatable("it is empty")
DAMAGED = translatable("it is damaged")
TOO_HEAVY = translatable("opening it takes too much time or memory")
LOCKED = translatable("it is locked with a password")
NOT_AN_IMAGE = translatable("it is no picture that can be opened here; JPEG, PNG, WebP and GIF work")
TOO_LARGE = translatable("it has too many points to be opened")
NO_TEXT = translatable("there is nothing in it that I can read")
OLD_OFFICE = translatable("it is in a format from before 2007; saved as docx, xlsx, pptx or PDF it works")
OTHER_KIND = translatable(
    "files of this kind cannot be read here; pictures, PDFs, docx, xlsx, pptx, web pages and text files work"
)
_REFUSALS = {
    "no picture": NOT_AN_IMAGE,
    "large": TOO_LARGE,
    "locked": LOCKED,
    "heavy": TOO_HEAVY,
    "empty": NO_TEXT,
    "unknown": OTHER_KIND,
}


@dataclass(frozen=True, slots=True)
class ReadTimeouts:
    """Seconds that a picture and a document may take."""

    image_seconds: float = 15.0
    document_seconds: float = 20.0


class AttachmentReader:
    """Reads files. Raises AttachmentUnusable for what cannot be read; cancelling kills the process.

    `image_tokens`: what the model sees of a picture; it changes when the server tells.
    """

    def __init__(
        self,
        timeouts: ReadTimeouts = ReadTimeouts(),
        *,
        memory_bytes: int = MAX_MEMORY_BYTES,
        image_tokens: int = IMAGE_TOKENS[0],
    ) -> None:
        self.image_tokens = image_tokens
        self._timeouts = timeouts
        self._memory_bytes = memory_bytes
        self._process_slots = asyncio.Semaphore(MAX_PROCESSES)

    @property
    def _max_area(self) -> int:
        return self.image_tokens * AREA_PER_TOKEN

    async def read_image(self, body: bytes, name: str = "") -> Attachment:
        """A picture as the model gets it."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        image = await self._run_in_sandbox(
            shrink_image, body, self._timeouts.image_seconds, max_area=self._max_area
        )
        return _to_attachment(image, name)

    async def read_file(
        self, body: bytes, name: str, max_pictures: int = 0
    ) -> Attachment | ExtractedDocument:
        """A file of any kind: a picture as the model gets it, or the text of a document.

        Of a PDF also pictures of up to so many pages without text.
        """
        if not body:
            raise AttachmentUnusable(EMPTY)
        if body.startswith(_IMAGE_SIGNATURES) or (body.startswith(b"RIFF") and body[8:12] == b"WEBP"):
            return await self.read_image(body, name)
        if b"%PDF-" in body[:_PDF_HEADER_BYTES]:
            return await self._read_pdf(body, name, max_pictures)
        if body.startswith(_ZIP_SIGNATURE):
            return await self._read_office(body, name)
        if body.startswith(_OLE_SIGNATURE):
            raise AttachmentUnusable(LOCKED if _ENCRYPTED_ENTRY in body else OLD_OFFICE)
        return await self._read_text(body, name)

    async def _read_pdf(self, body: bytes, name: str, max_pictures: int) -> ExtractedDocument:
        document = await self._read_pages(extract_pdf_text, body)
        extracted = ExtractedDocument(
            name,
            "application/pdf",
            tuple(document["texts"]),
            page_count=document["of"],
            drawn_pages=tuple(document["drawn"]),
        )
        try:
            return replace(extracted, pictures=await self._render_pages(body, extracted, max_pictures))
        except AttachmentUnusable:
            if extracted.is_scanned:
                raise
            return extracted

    async def _render_pages(
        self, body: bytes, document: ExtractedDocument, max_pictures: int
    ) -> tuple[Attachment, ...]:
        numbers = document.drawn_pages[:max_pictures]
        if not numbers:
            if document.is_scanned:
                raise AttachmentUnusable(NO_TEXT)
            return ()
        seconds = self._timeouts.image_seconds
        rendered = await self._run_in_sandbox(
            render_pdf_pages,
            body,
            seconds,
            max_result_bytes=_MAX_PICTURE_BYTES * len(numbers),
            numbers=numbers,
            max_area=self._max_area,
            within=seconds / 2,
        )
        return tuple(_to_attachment(image, document.name) for image in rendered["pictures"])

    async def _read_office(self, body: bytes, name: str) -> ExtractedDocument:
        document = await self._read_pages(extract_office_text, body)
        return ExtractedDocument(
            name,
            "text/plain",
            tuple(document["texts"]),
            page_count=document["of"],
            char_count=document.get("length"),
            page_noun=document["noun"],
            is_cut=document.get("cut", False),
        )

    async def _read_pages(self, extract: Callable[..., Any], body: bytes) -> dict[str, Any]:
        seconds = self._timeouts.document_seconds
        # Pages stop after half of the time, so that one that never ends does not lose those before it.
        return await self._run_in_sandbox(
            extract, body, seconds, pages=MAX_PAGES, characters=MAX_CHARACTERS, within=seconds / 2
        )

    async def _read_text(self, body: bytes, name: str) -> ExtractedDocument:
        if body.startswith(_RTF_SIGNATURE):
            raise AttachmentUnusable(OTHER_KIND)
        is_html = is_html_start(body[:_HTML_START_BYTES].decode("utf-8-sig", "replace"))
        extract = extract_html_text if is_html else extract_plain_text
        document = await self._run_in_sandbox(
            extract, body, self._timeouts.document_seconds, characters=MAX_CHARACTERS
        )
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
        self,
        extract: Callable[..., Any],
        body: bytes,
        seconds: float,
        max_result_bytes: int = _MAX_RESULT_BYTES,
        **arguments: Any,
    ) -> dict[str, Any]:
        limits = SandboxLimits(
            wall_seconds=seconds,
            cpu_seconds=max(1, int(seconds)),
            memory_bytes=self._memory_bytes,
            max_result_bytes=max_result_bytes,
        )
        try:
            async with self._process_slots:
                result: dict[str, Any] = await run_in_sandbox(extract, body, limits, **arguments)
        except SandboxStopped as error:
            is_damaged = str(error).startswith("it failed") and "MemoryError" not in str(error)
            raise AttachmentUnusable(DAMAGED if is_damaged else TOO_HEAVY) from error
        if "refused" in result:
            raise AttachmentUnusable(_REFUSALS[result["refused"]])
        return result


def _to_attachment(image: dict[str, Any], name: str) -> Attachment:
    return Attachment("image", name, image["media_type"], data=base64.b64decode(image["data"]))
