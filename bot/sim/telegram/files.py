"""The files of chats: stored once, sent again by their id, and refused where they break Telegram's bounds."""

import io
import mimetypes
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from bot.sim.telegram.params import Json, Params, TelegramRefusal, Upload, bad_request

MAX_UPLOAD_BYTES = 50 << 20
MAX_PHOTO_BYTES = 10 << 20
_MAX_PHOTO_SIDES = 10_000  # width and height together
_MAX_PHOTO_RATIO = 20
_PHOTO_FORMATS = ("JPEG", "PNG", "WEBP")
_KIND_NAMES = {
    "animation": "Animation",
    "audio": "Audio",
    "document": "Document",
    "photo": "Photo",
    "sticker": "Sticker",
    "video": "Video",
    "video_note": "VideoNote",
    "voice": "VoiceNote",
}


class FileRefusal(TelegramRefusal):
    """A refusal by Telegram's servers rather than by the Bot API server; an album names the item."""

    def __init__(self, reason: str) -> None:
        super().__init__(400, f"Bad Request: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a kind, such as `photo`; a size of 0 by 0 is one that nobody measured."""

    file_id: str
    kind: str
    content: bytes
    name: str = ""
    width: int = 0
    height: int = 0

    def to_fields(self) -> Json:
        """What a message with this file carries."""
        file: Json = {
            "file_id": self.file_id,
            "file_unique_id": "u-" + self.file_id,
            "file_size": len(self.content),
        }
        if self.kind == "photo":
            return {"photo": [{**file, "width": self.width or 640, "height": self.height or 480}]}
        if self.kind == "voice":
            return {"voice": {**file, "duration": 1, "mime_type": "audio/ogg"}}
        media_type = mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        return {self.kind: {**file, "file_name": self.name or "file", "mime_type": media_type}}


class FileStore:
    """All files that anybody has sent."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def find(self, file_id: str) -> StoredFile | None:
        return self._files.get(file_id)

    def store(self, kind: str, content: bytes, name: str = "", size: tuple[int, int] = (0, 0)) -> StoredFile:
        file = StoredFile(f"{kind}-{len(self._files) + 1}", kind, content, name, *size)
        self._files[file.file_id] = file
        return file

    def read(self, kind: str, params: Params, name: str) -> StoredFile:
        """The photo or document that a parameter uploads, or names by its id."""
        upload = params.files.get(name)
        sent = params.text(name)
        if upload is None and sent:
            return self.read_reference(kind, params, sent)
        if upload is None:
            raise bad_request(f"there is no {kind} in the request")
        return self._store_upload(kind, upload)

    def read_reference(self, kind: str, params: Params, sent: str) -> StoredFile:
        """The file of an `attach://` reference or of a file id."""
        if sent.startswith("attach://"):
            upload = params.files.get(sent.removeprefix("attach://"))
            if upload is None:
                raise bad_request("can't parse InputMedia: media not found")
            return self._store_upload(kind, upload)
        file = self._files.get(sent)
        if file is None:
            raise _refuse_unknown(sent)
        if file.kind != kind:
            raise bad_request(f"can't use file of type {_KIND_NAMES[file.kind]} as {_KIND_NAMES[kind]}")
        return file

    def _store_upload(self, kind: str, upload: Upload) -> StoredFile:
        if len(upload.content) > MAX_UPLOAD_BYTES:
            raise TelegramRefusal(413, "Request Entity Too Large")
        if not upload.content:
            raise bad_request("file must be non-empty")
        if kind == "photo":
            return self.store(kind, upload.content, size=_measure_photo(upload.content))
        return self.store(kind, upload.content, upload.name)


def _measure_photo(content: bytes) -> tuple[int, int]:
    """The size of a photo by its bytes; its name and media type say nothing."""
    if len(content) > MAX_PHOTO_BYTES:
        raise bad_request(
            f"file of size {len(content)} bytes is too big for a photo;"
            f" the maximum size is {MAX_PHOTO_BYTES} bytes"
        )
    try:
        with Image.open(io.BytesIO(content), formats=_PHOTO_FORMATS) as image:
            width, height = image.size
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        raise FileRefusal("IMAGE_PROCESS_FAILED") from None
    if width + height > _MAX_PHOTO_SIDES or max(width, height) > _MAX_PHOTO_RATIO * min(width, height):
        raise FileRefusal("PHOTO_INVALID_DIMENSIONS")
    return width, height


def _refuse_unknown(sent: str) -> TelegramRefusal:
    if "." in sent:
        return bad_request("failed to get HTTP URL content")
    return bad_request("wrong remote file identifier specified: Wrong string length")
