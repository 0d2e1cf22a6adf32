"""Converts a server's answer to a call: text and pictures for the model, files for the person. Pure."""

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tools.base import File, Found, Picture, ToolError
from tools.results import find_picture_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        PromptMessage,
        TextResourceContents,
    )

MAX_PICTURES = 4  # of one result
MAX_FILES = 10  # of one result
MAX_URI_CHARS = 2000  # of a resource; a longer one could not be read
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_URI_PATH = re.compile(r"[^?#]*")


def to_found(result: "CallToolResult", reader: str | None = None, *, delivers: bool = False) -> Found:
    """Text, pictures and files of a result; what the model does not get of it is named as left out.

    `reader` names the tool that reads resources, where there is one: links tell of it. `delivers`: the person
    is sent pictures, sounds and resources; links stay text.
    Structured content is used only where there is no text, since otherwise it says the same.
    Raises ToolError for a result that is an error.
    """
    parts = _ResultParts(delivers=delivers)
    for block in result.content:
        parts.add_block(block, reader)
    if result.structured_content is not None and not any(text.strip() for text in parts.texts):
        parts.texts = [json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))]
    if result.is_error:
        raise ToolError("\n".join(filter(None, parts.texts)) or "It failed and did not say why.")
    return parts.build("Done.")


def to_found_contents(
    contents: "Sequence[TextResourceContents | BlobResourceContents]", *, delivers: bool = False
) -> Found:
    """Text, pictures and files of a resource, which may have several parts."""
    parts = _ResultParts(delivers=delivers)
    for part in contents:
        parts.add_contents(part)
    return parts.build("It is empty.")


def to_found_messages(messages: "Sequence[PromptMessage]") -> Found:
    """The messages of a prompt, each with who shall have said it; their pictures are for the model alone."""
    texts: list[str] = []
    images: list[Picture] = []
    for message in messages:
        parts = _ResultParts()
        parts.add_block(message.content, None)
        images += parts.images[: MAX_PICTURES - len(images)]
        texts += [f"{message.role}: {text}" for text in parts.texts]
    return Found("\n".join(texts) or "It is empty.", tuple(images))


class _ResultParts:
    """What an answer has for the model, and, if it `delivers`, for the person."""

    def __init__(self, *, delivers: bool = False) -> None:
        self.texts: list[str] = []
        self.images: list[Picture] = []
        self._files: list[File] = []
        self._delivers = delivers
        self._has_undelivered = False

    def build(self, text_if_empty: str) -> Found:
        text = "\n".join(filter(None, self.texts))
        if not text and not self.images and not self._files:
            text = text_if_empty
        return Found(text, tuple(self.images), tuple(self._files), self._has_undelivered)

    def add_block(self, block: "ContentBlock", reader: str | None) -> None:
        match block.type:
            case "text":
                self.texts.append(block.text)
            case "resource_link":
                self.texts.append(_format_link(block.name, block.uri, reader))
            case "resource":
                self.add_contents(block.resource)
            case "image":
                self._add_data("picture", block.mime_type, block.data, "a picture")
            case "audio":
                self._add_data("sound", block.mime_type, block.data, "sound")

    def add_contents(self, contents: "TextResourceContents | BlobResourceContents") -> None:
        name = _find_name(contents.uri)
        text = getattr(contents, "text", None)
        if text is None:
            blob = getattr(contents, "blob", None)
            self._add_data(name, contents.mime_type, blob, f"the file {contents.uri[:200]}")
            return
        self.texts.append(str(text))
        if self._delivers and text and len(self._files) < MAX_FILES:
            media_type = contents.mime_type or "text/plain"
            self._files.append(File(name, str(text).encode(errors="replace"), media_type=media_type))

    def _add_data(self, name: str, media_type: str | None, encoded: str | None, described: str) -> None:
        """Add what is no text: as a picture for the model where it is one, and as a file for the person."""
        data = _decode(encoded)
        is_used = False
        if data and media_type in _IMAGE_TYPES and len(self.images) < MAX_PICTURES:
            self.images.append(Picture(media_type, data))
            is_used = True
        if data and self._delivers and len(self._files) < MAX_FILES:
            self._files.append(File(name, data, media_type=find_picture_type(data) or media_type or ""))
            is_used = True
        if not is_used:
            self.texts.append(f"[left out: {described}]")
        self._has_undelivered |= not self._delivers


def _decode(encoded: str | None) -> bytes:
    """The bytes of base64; none of what is no base64."""
    try:
        return base64.b64decode(encoded or "")
    except (binascii.Error, ValueError):
        return b""


def _find_name(uri: str) -> str:
    """The name of a resource as a file: the end of its URI."""
    path = _URI_PATH.match(uri[:MAX_URI_CHARS])
    return unquote(path[0].rstrip("/").rpartition("/")[2]) if path else ""


def _format_link(name: str, uri: str, reader: str | None) -> str:
    if reader is not None:
        return f"[the resource {name[:100]}, which {reader} reads: {uri[:MAX_URI_CHARS]}]"
    return f"[left out: the resource {uri[:200]}]"
