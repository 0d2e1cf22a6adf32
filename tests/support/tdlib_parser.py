"""Checks pieces the way Telegram would.

TDLib's own parser checks what it can offline (`getMarkdownText` checks a text and its entities like a message
about to be sent): bounds in UTF-16 units, halves of surrogate pairs, URLs of links. Our own rules check the
rest: length of the text, visible text, white space at its end, the number of entities, their JSON, the
language of code.
"""

import json
from functools import cache
from typing import Any

from tdjson import td_execute

from bot.telegram.formatting.splitter import Piece, is_visible, utf16_len

_TYPES = {
    "bold": "Bold",
    "italic": "Italic",
    "strikethrough": "Strikethrough",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "blockquote": "BlockQuote",
}


def find_refusal(piece: Piece) -> str | None:
    """Return why Telegram would refuse or change this piece; None if it would not."""
    return _check_own_rules(piece) or _check_with_tdlib(piece)


def _check_own_rules(piece: Piece) -> str | None:
    if not is_visible(piece.text):
        return "nothing to see"
    if utf16_len(piece.text) > 4096:
        return "too long"
    if piece.text != piece.text.rstrip():
        return "white space at the end"
    if len(piece.entities) > 100:
        return "more than 100 entities"
    for entity in piece.entities:
        fault = _find_entity_fault(entity, utf16_len(piece.text))
        if fault:
            return fault
    return None


def _find_entity_fault(entity: dict[str, Any], length: int) -> str | None:
    allowed_keys = {"type", "offset", "length"}
    if entity["type"] == "pre":
        allowed_keys.add("language")
    if entity["type"] == "text_link":
        allowed_keys.add("url")
    if not set(entity) <= allowed_keys or entity["type"] not in _TYPES:
        return f"not the Bot API's shape: {entity}"
    if entity["length"] <= 0 or entity["offset"] < 0 or entity["offset"] + entity["length"] > length:
        return f"out of bounds: {entity}"
    if len(entity.get("language", "x").split()) != 1:
        return f"no language: {entity}"
    return None


def _check_with_tdlib(piece: Piece) -> str | None:
    entities = [_to_tdlib_entity(entity) for entity in piece.entities]
    formatted = {"@type": "formattedText", "text": piece.text, "entities": entities}
    answer = query_tdlib({"@type": "getMarkdownText", "text": formatted})
    return str(answer["message"]) if answer["@type"] == "error" else None


def _to_tdlib_entity(entity: dict[str, Any]) -> dict[str, Any]:
    kind = {"@type": f"textEntityType{_TYPES[entity['type']]}"}
    if "url" in entity:
        kind["url"] = entity["url"]
    if "language" in entity:
        kind = {"@type": "textEntityTypePreCode", "language": entity["language"]}
    return {"@type": "textEntity", "offset": entity["offset"], "length": entity["length"], "type": kind}


def query_tdlib(query: dict[str, Any]) -> dict[str, Any]:
    """Return TDLib's answer to a query that it can answer offline."""
    _silence_log()
    answer = td_execute(json.dumps(query).encode())
    assert answer is not None
    return dict(json.loads(answer))


@cache
def _silence_log() -> None:
    td_execute(b'{"@type": "setLogVerbosityLevel", "new_verbosity_level": 0}')


def list_texts_under(piece: Piece, kind: str) -> list[str]:
    """Return the text under each entity of a kind, cut out the way Telegram does."""
    units = piece.text.encode("utf-16-le")
    spans = [
        (entity["offset"] * 2, (entity["offset"] + entity["length"]) * 2)
        for entity in piece.entities
        if entity["type"] == kind
    ]
    return [units[start:end].decode("utf-16-le") for start, end in spans]
