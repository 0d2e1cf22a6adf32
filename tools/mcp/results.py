"""Converts a server's answer to a call into text and pictures for the model. Pure."""

import base64
import binascii
import json
from typing import TYPE_CHECKING

from tools.base import Found, Picture, ToolError

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
MAX_URI_CHARS = 2000  # of a resource; a longer one could not be read
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")


def to_found(result: "CallToolResult", reader: str | None = None) -> Found:
    """Text and pictures of a result; everything else is named as left out.

    `reader` names the tool that reads resources, where there is one: links tell of it.
    Structured content is used only where there is no text, since otherwise it says the same.
    Raises ToolError for a result that is an error.
    """
    texts, images = _split_content(result.content, reader)
    if result.structured_content is not None and not any(text.strip() for text in texts):
        texts = [json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))]
    text = "\n".join(text for text in texts if text)
    if result.is_error:
        raise ToolError(text or "It failed and did not say why.")
    if not text and not images:
        return Found("Done.")
    return Found(text, tuple(images))


def to_found_contents(contents: "Sequence[TextResourceContents | BlobResourceContents]") -> Found:
    """Text and pictures of a resource, which may have several parts."""
    texts: list[str] = []
    images: list[Picture] = []
    for part in contents:
        picture = _decode_picture(part.mime_type, getattr(part, "blob", None))
        if picture is not None and len(images) < MAX_PICTURES:
            images.append(picture)
        else:
            texts.append(_contents_to_text(part))
    return Found("\n".join(filter(None, texts)) or ("" if images else "It is empty."), tuple(images))


def to_found_messages(messages: "Sequence[PromptMessage]") -> Found:
    """The messages of a prompt, each with who shall have said it."""
    texts: list[str] = []
    images: list[Picture] = []
    for message in messages:
        message_texts, message_images = _split_content([message.content], None)
        images += message_images[: MAX_PICTURES - len(images)]
        texts += [f"{message.role}: {text}" for text in message_texts]
    return Found("\n".join(texts) or "It is empty.", tuple(images))


def _split_content(content: "Sequence[ContentBlock]", reader: str | None) -> tuple[list[str], list[Picture]]:
    texts: list[str] = []
    images: list[Picture] = []
    for block in content:
        picture = _to_picture(block) if len(images) < MAX_PICTURES else None
        if picture is not None:
            images.append(picture)
        else:
            texts.append(_to_text(block, reader))
    return texts, images


def _to_picture(block: "ContentBlock") -> Picture | None:
    match block.type:
        case "image":
            return _decode_picture(block.mime_type, block.data)
        case "resource":
            return _decode_picture(block.resource.mime_type, getattr(block.resource, "blob", None))
    return None


def _decode_picture(media_type: str | None, data: str | None) -> Picture | None:
    """The picture in this data (base64); None for anything else."""
    if data is None or media_type not in _IMAGE_TYPES:
        return None
    try:
        return Picture(media_type, base64.b64decode(data))
    except (binascii.Error, ValueError):
        return None


def _to_text(block: "ContentBlock", reader: str | None) -> str:
    """The text of a block, or a note of what was left out."""
    match block.type:
        case "text":
            return block.text
        case "resource_link":
            if reader is not None:
                return f"[the resource {block.name[:100]}, which {reader} reads: {block.uri[:MAX_URI_CHARS]}]"
            return f"[left out: the resource {block.uri[:200]}]"
        case "resource":
            return _contents_to_text(block.resource)
        case "image":
            return "[left out: a picture]"
    return "[left out: sound]"


def _contents_to_text(contents: "TextResourceContents | BlobResourceContents") -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    return f"[left out: the file {contents.uri[:200]}]"
