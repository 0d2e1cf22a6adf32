"""Keeps the files of DOCUMENTS_DIR for everybody with access, as they come, change and go.

Each is read as a file that somebody sends: by the same reader, within the same limits.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bot.attachments.excerpts import ExtractedDocument
from bot.attachments.outgoing_files import clean_file_name
from bot.attachments.reader import OTHER_KIND, AttachmentReader
from bot.db.conversations import kept_files
from bot.db.conversations.attachments import MAX_TEXT_BYTES
from bot.db.conversations.stored_files import MAX_BYTES
from bot.db.engine import Database
from bot.db.queues import admin_notices
from bot.db.queues.admin_notices import AdminNotices
from bot.db.retry import retry_until_available
from bot.domain import Button, Part
from bot.errors import AttachmentUnusable
from bot.translations.translator import Translator, translatable
from tools.threads import run_in_thread

LOOK_SECONDS = 0.5  # a file is read once two looks have found it alike
MAX_FILE_BYTES = 20_000_000  # as Telegram's
MAX_FILES = 200
OPENED: Final = "documents for everybody"
"""The notice that says that an admin opened the folder to everybody; see ACCESS."""
OPEN_BUTTON: Final = "documents:open"
TOO_LARGE = translatable("it is too large")
TOO_MANY = translatable("the folder already has as much as I can keep")
_ASKED = "documents of the owner"

_Stamp = tuple[int, int]  # when a file was changed, in nanoseconds, and its bytes


@dataclass(frozen=True, slots=True)
class _KnownFile:
    """A file as it was read; `hash` None: it could not be."""

    stamp: _Stamp
    hash: str | None


class DocumentFolder:
    """Watches one folder; None: there is none, and what was kept of it goes.

    `needs_opening`: strangers may write to the bot, so an admin says first that they may read the files.
    """

    def __init__(
        self,
        database: Database,
        folder: Path | None,
        reader: AttachmentReader,
        notices: AdminNotices,
        *,
        needs_opening: bool,
    ) -> None:
        self._database = database
        self._folder = folder
        self._reader = reader
        self._notices = notices
        self._is_open = not needs_opening
        self._has_asked = False
        self._kept_hashes: frozenset[str] | None = None
        self._listed: dict[Path, _Stamp] = {}
        self._known: dict[Path, _KnownFile] = {}

    async def run(self) -> None:
        """Take in and drop files as they change, until cancelled; without a folder only drop all."""
        while self._folder is not None:
            await retry_until_available(partial(self._look, self._folder))
            await asyncio.sleep(LOOK_SECONDS)
        await retry_until_available(partial(self._drop_all_but, frozenset()))

    async def _look(self, folder: Path) -> None:
        listed = await run_in_thread(_list_files, folder)
        if listed and not self._is_open and not await self._ask_to_open():
            listed = {}
        for path, stamp in listed.items():
            known = self._known.get(path)
            if self._listed.get(path) == stamp and (known is None or known.stamp != stamp):
                self._known[path] = _KnownFile(stamp, await self._take_in(path, stamp))
        self._listed = listed
        self._known = {path: known for path, known in self._known.items() if path in listed}
        hashes = frozenset(known.hash for known in self._known.values() if known.hash is not None)
        if len(self._known) == len(listed) and hashes != self._kept_hashes:
            await self._drop_all_but(hashes)
            self._kept_hashes = hashes

    async def _ask_to_open(self) -> bool:
        """Whether an admin opened the folder to everybody; all are asked once."""
        async with self._database.read_transaction() as tx:
            self._is_open = await admin_notices.is_recorded(tx, OPENED)
        if self._is_open or self._has_asked:
            return self._is_open
        now = time.time()
        async with self._database.transaction() as tx:
            if await admin_notices.record_if_changed(tx, _ASKED, "asked", now=now):
                await self._notices.send(tx, _build_question, now=now)
        self._has_asked = True
        return False

    async def _take_in(self, path: Path, stamp: _Stamp) -> str | None:
        """Keep a file, unless it is kept already; return its hash, None where it cannot be read."""
        try:
            return await self._read(path, stamp)
        except FileNotFoundError:  # it was taken away again
            return None
        except OSError as error:
            reason = error.strerror or type(error).__name__
        except AttachmentUnusable as unusable:
            reason = str(unusable)
        name = clean_file_name(path.name)

        def explain(translate: Translator) -> str:
            return translate(
                "I can't read {name} in DOCUMENTS_DIR: {reason}.", name=name, reason=translate(reason)
            )

        async with self._database.transaction() as tx:
            await self._notices.notify(tx, f"document {name}", explain, now=time.time())
        return None

    async def _read(self, path: Path, stamp: _Stamp) -> str:
        if stamp[1] > MAX_FILE_BYTES:
            raise AttachmentUnusable(TOO_LARGE)
        body = await run_in_thread(path.read_bytes)
        name = clean_file_name(path.name)
        file_hash = kept_files.hash_content(name.encode(), body)
        async with self._database.read_transaction() as tx:
            kept = await kept_files.load_folder_sizes(tx)
        if file_hash in kept:
            return file_hash
        document = await self._reader.read_file(body, name)
        if not isinstance(document, ExtractedDocument):
            raise AttachmentUnusable(OTHER_KIND)
        text = (document.stored_attachment.text or "").encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
        if len(kept) >= MAX_FILES or sum(kept.values()) + len(text.encode()) > MAX_BYTES:
            raise AttachmentUnusable(TOO_MANY)
        pages = None if document.page_count is None else len(document.texts)
        async with self._database.transaction() as tx:
            await kept_files.keep_in_folder(tx, name, file_hash, text, pages, now=time.time())
        return file_hash

    async def _drop_all_but(self, hashes: frozenset[str]) -> None:
        """Delete what is kept of files that are not in the folder any more."""
        async with self._database.transaction() as tx:
            await kept_files.drop_from_folder(tx, hashes)


def _list_files(folder: Path) -> dict[Path, _Stamp]:
    """The files that lie directly in a folder, but for hidden ones; none where it cannot be read."""
    files = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("."):
                facts = path.stat()
                files[path] = (facts.st_mtime_ns, facts.st_size)
    except OSError:
        return {}
    return files


def _build_question(translate: Translator) -> Part:
    text = translate(
        "There are files in DOCUMENTS_DIR. Anybody may write to me (ACCESS=open), so I won't look "
        "things up in them until you open them to everybody."
    )
    return Part(text, buttons=((Button(translate("Open to everybody"), OPEN_BUTTON),),))
