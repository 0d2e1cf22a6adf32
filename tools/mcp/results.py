"""Converts a server's answer to a call into text and pictures for the model. Pure."""

import base64
import binascii
import json
from typing import TYPE_CHECKING

from tools.base import Found, Picture, ToolError

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MAX_PICTURES = 4  # of one result
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")


def to_found(result: "CallToolResult") -> Found:
    """Text and pictures of a result; everything else is named as left out.

    Structured content is used only where there is no text, since otherwise it says the same.
    Raises ToolError for a result that is an error.
    """
    texts: list[str] = []
    images: list[Picture] = []
    for block in result.content:
        picture = _to_picture(block) if len(images) < MAX_PICTURES else None
        if picture is not None:
            images.append(picture)
        else:
            texts.append(_to_text(block))
    if result.structured_content is not None and not any(text.strip() for text in texts):
        texts = [json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))]
    text = "\n".join(text for text in texts if text)
    if result.is_error:
        raise ToolError(text or "It failed and did not say why.")
    if not text and not images:
        return Found("Done.")
    return Found(text, tuple(images))


def _to_picture(block: "ContentBlock") -> Picture | None:
    if block.type != "image" or block.mime_type not in _IMAGE_TYPES:
        return None
    try:
        return Picture(block.mime_type, base64.b64decode(block.data))
    except (binascii.Error, ValueError):
        return None


def _to_text(block: "ContentBlock") -> str:
    """The text of a block, or a note of what was left out."""
    match block.type:
        case "text":
            return block.text
        case "resource_link":
            return f"[left out: the resource {block.uri[:200]}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            if text is not None:
                return str(text)
            return f"[left out: the file {block.resource.uri[:200]}]"
        case "image":
            return "[left out: a picture]"
    return "[left out: sound]"
