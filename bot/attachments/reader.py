"""Opens what people sent, in processes that can be killed: pictures become small, papers and text files text.

What a file is, its content says; names and what Telegram calls it are not asked.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot.attachments.excerpts import Document
from bot.attachments.images import picture
from bot.attachments.text_extraction import paper, plain
from bot.domain import Attachment
from bot.errors import AttachmentUnusable
from tools.sandbox.process import Limits, Stopped, run_apart

AT_ONCE = 4  # processes; each may take the memory below
PAGES = 500
CHARACTERS = 1_000_000  # that are kept of one document
_MEMORY = 768 * 1024 * 1024
_ANSWER = 12 * CHARACTERS + 64 * 1024  # JSON writes a sign beyond the first 65,536 in twelve bytes

_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
_PAPER_WITHIN = 1024  # bytes; some programs write something before a PDF
_RICH_TEXT = b"{\\rtf"

EMPTY = "it is empty"
DAMAGED = "it is damaged"
HEAVY = "opening it takes too much time or memory"
LOCKED = "it is locked with a password"
NO_PICTURE = "it is no picture that can be opened here; JPEG, PNG, WebP and GIF work"
NO_TEXT = "there is no text in it that can be read; if its pages are scanned, photos of them work"
OTHER_KIND = "files of this kind cannot be read here; pictures, PDFs and text files work"


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a picture and a document may take before they are given up."""

    picture: float = 15.0
    document: float = 20.0


class Reader:
    """Reads files. What cannot be read raises AttachmentUnusable; cancelling kills the process at work."""

    def __init__(self, patience: Patience = Patience()) -> None:
        self._patience = patience
        self._places = asyncio.Semaphore(AT_ONCE)

    async def picture(self, body: bytes, name: str = "") -> Attachment:
        """A picture as the model gets it."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        found = await self._apart(picture, body, self._patience.picture)
        match found.get("refused"):
            case "unknown":
                raise AttachmentUnusable(NO_PICTURE)
            case "large":
                raise AttachmentUnusable(
                    f"it has {found['points'] // 1_000_000} million points, too many to be opened"
                )
        return Attachment("image", name, found["media_type"], data=base64.b64decode(found["data"]))

    async def file(self, body: bytes, name: str) -> Attachment | Document:
        """A file of whatever kind: a picture as the model gets it, or the text of a document."""
        if not body:
            raise AttachmentUnusable(EMPTY)
        if body.startswith(_PICTURES) or (body.startswith(b"RIFF") and body[8:12] == b"WEBP"):
            return await self.picture(body, name)
        if b"%PDF-" in body[:_PAPER_WITHIN]:
            return await self._paper(body, name)
        return await self._plain(body, name)

    async def _paper(self, body: bytes, name: str) -> Document:
        patience = self._patience.document
        # Half of the time for whole pages, so that what is read by then is not lost with a page that never
        # ends.
        bounds = {"pages": PAGES, "characters": CHARACTERS, "within": patience / 2}
        found = await self._apart(paper, body, patience, **bounds)
        match found.get("refused"):
            case "locked":
                raise AttachmentUnusable(LOCKED)
            case "empty":
                raise AttachmentUnusable(NO_TEXT)
        return Document(name, "application/pdf", tuple(found["texts"]), pages=found["of"])

    async def _plain(self, body: bytes, name: str) -> Document:
        if body.startswith(_RICH_TEXT):
            raise AttachmentUnusable(OTHER_KIND)
        found = await self._apart(plain, body, self._patience.document, characters=CHARACTERS)
        if "refused" in found:
            raise AttachmentUnusable(OTHER_KIND)
        if not found["text"].strip():
            raise AttachmentUnusable(EMPTY)
        return Document(name, "text/plain", (found["text"],), length=found["length"], sure=found["sure"])

    async def _apart(
        self, work: Callable[..., Any], body: bytes, seconds: float, **arguments: Any
    ) -> dict[str, Any]:
        limits = Limits(seconds=seconds, processor=max(1, int(seconds)), memory=_MEMORY, answer=_ANSWER)
        try:
            async with self._places:
                found: dict[str, Any] = await run_apart(work, body, limits, **arguments)
        except Stopped as stopped:
            failed = str(stopped).startswith("it failed") and "MemoryError" not in str(stopped)
            raise AttachmentUnusable(DAMAGED if failed else HEAVY) from stopped
        return found
