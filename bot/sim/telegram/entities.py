"""Checks a text with its entities as TDLib does: UTF-16 lengths, entity bounds and types, links. Pure.

The result is the text as Telegram stores it: without control characters and outer whitespace, entities moved
along.
"""

import re
from dataclasses import dataclass
from typing import Any

from bot.sim.telegram.links import LinkInvalid, check_link
from bot.sim.telegram.params import Json, bad_request

MAX_ENTITIES = 100
MAX_TEXT_UNITS = 4096
MAX_CAPTION_UNITS = 1024

_MAX_BYTES = 1 << 15
_ENTITY_TYPES = frozenset(
    (
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "code",
        "pre",
        "blockquote",
        "expandable_blockquote",
    )
).union(("text_link", "text_mention", "custom_emoji", "date_time"))
# Telegram finds these by itself and ignores them in a request.
_DETECTED_TYPES = frozenset(
    ("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number")
)
_KEPT_FIELDS = ("language", "url", "user", "custom_emoji_id", "unix_time", "date_time_format")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_BLANK_CHARACTERS = (
    " \t\n\v\f\r\u00a0\u1680\u180e\u2000\u2001\u2002\u2003\u2004\u2005"
    "\u2006\u2007\u2008\u2009\u200a\u200b\u200c"
    "\u200d\u200e\u200f\u202e\u202f\u205f\u2800\u3000\ufffc"
)


@dataclass(frozen=True, slots=True)
class FormattedText:
    """A text as Telegram stores it, with entities as they are returned.

    `units` is its length in UTF-16 units.
    """

    text: str
    entities: tuple[Json, ...]
    units: int

    @property
    def is_blank(self) -> bool:
        return not self.text.strip(_BLANK_CHARACTERS)


def count_utf16_units(text: str) -> int:
    """The length in UTF-16 units, the measure of all Telegram's limits and offsets."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def format_text(text: str, entities: Any) -> FormattedText:
    """Check and clean a text; raises TelegramRefusal (400) with Telegram's wording."""
    if len(text.encode()) > _MAX_BYTES:
        raise bad_request("Text is too long")
    if isinstance(entities, list):
        parsed = [_parse_entity(entity) for entity in entities]
    else:
        parsed = []
    spans = [entity for entity in parsed if entity is not None]
    for span in spans:
        _check_span(span)
    spans = [span for span in spans if span["length"] > 0]
    units = count_utf16_units(text)
    if spans:
        _check_bounds(text, units, spans)
    if _CONTROL_CHARACTERS.search(text):
        text, spans = _replace_control_characters(text, spans)
    text, spans = _trim(text, spans)
    spans.sort(key=lambda span: (span["offset"], -span["length"]))
    return FormattedText(text, tuple(spans[:MAX_ENTITIES]), count_utf16_units(text))


def _parse_entity(raw: Any) -> Json | None:
    if not isinstance(raw, dict):
        raise _unreadable_entity("expected an Object")
    entity = {name: _read_integer(raw, name) for name in ("offset", "length")}
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise _unreadable_entity('Can\'t find field "type"')
    if kind in _DETECTED_TYPES:
        return None
    if kind not in _ENTITY_TYPES:
        raise _unreadable_entity("Unsupported type specified")
    if kind == "text_link" and not isinstance(raw.get("url"), str):
        raise _unreadable_entity('Can\'t find field "url"')
    if kind == "text_mention" and not isinstance(raw.get("user"), dict):
        raise _unreadable_entity('Can\'t find field "user"')
    extra = {name: raw[name] for name in _KEPT_FIELDS if raw.get(name) is not None}
    return {"offset": entity["offset"], "length": entity["length"], "type": kind, **extra}


def _read_integer(raw: Json, name: str) -> int:
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _unreadable_entity(f'Can\'t find field "{name}"')
    try:
        return int(value)
    except ValueError:
        raise _unreadable_entity(f'Field "{name}" must be of type Number') from None


def _unreadable_entity(reason: str) -> Exception:
    return bad_request(f"can't parse MessageEntity: {reason}")


def _check_span(span: Json) -> None:
    if span["offset"] < 0:
        raise bad_request(f"receive an entity with incorrect offset {span['offset']}")
    if span["length"] < 0:
        raise bad_request(f"receive an entity with incorrect length {span['length']}")
    if span["type"] == "text_link":
        try:
            span["url"] = check_link(span["url"])
        except LinkInvalid as reason:
            raise bad_request(f"entity URL '{span['url']}' is invalid: {reason}") from None


def _check_bounds(text: str, units: int, spans: list[Json]) -> None:
    borders = None if text.isascii() else _character_borders(text)
    for span in sorted(spans, key=lambda span: (span["offset"], -span["length"])):
        start = span["offset"]
        end = span["offset"] + span["length"]
        if start > units:
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {start}")
        if borders is not None and start not in borders:
            raise bad_request(
                f"entity begins in a middle of a UTF-16 symbol at byte offset {_byte_offset(text, start)}"
            )
        if end > units:
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset "
                f"{end}"
            )
        if borders is not None and end not in borders:
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends in a middle of a UTF-16 symbol"
                f" at byte offset {_byte_offset(text, end)}"
            )


def _character_borders(text: str) -> frozenset[int]:
    position = 0
    borders = {0}
    for character in text:
        position += 2 if ord(character) > 0xFFFF else 1
        borders.add(position)
    return frozenset(borders)


def _byte_offset(text: str, units: int) -> int:
    """The UTF-8 bytes up to and including the character that a UTF-16 offset falls into."""
    before = text.encode("utf-16-le")[: 2 * (units + 1)].decode("utf-16-le", "ignore")
    return len(before.encode())


def _replace_control_characters(text: str, spans: list[Json]) -> tuple[str, list[Json]]:
    """Remove carriage returns; other control characters become spaces."""
    removed = [position for position, unit in enumerate(_utf16_characters(text)) if unit == "\r"]
    moved = [
        _move_span(span, lambda offset: offset - sum(1 for position in removed if position < offset))
        for span in spans
    ]
    cleaned = _CONTROL_CHARACTERS.sub(" ", text.replace("\r", ""))
    return cleaned, [span for span in moved if span["length"] > 0]


def _utf16_characters(text: str) -> list[str]:
    return [
        unit for character in text for unit in (character if ord(character) <= 0xFFFF else character + "\x00")
    ]


def _trim(text: str, spans: list[Json]) -> tuple[str, list[Json]]:
    """Strip whitespace at the end; at the start only what precedes the first entity."""
    stripped = text.rstrip(" \n")
    if stripped != text:
        text = stripped
        end = count_utf16_units(stripped)
        spans = [_move_span(span, lambda offset: min(offset, end)) for span in spans]
        spans = [span for span in spans if span["length"] > 0]
    first = min((span["offset"] for span in spans), default=len(text))
    lead = min(len(text) - len(text.lstrip(" \n")), first)
    if lead:
        text = text[lead:]
        spans = [_move_span(span, lambda offset: offset - lead) for span in spans]
    return text, spans


def _move_span(span: Json, move: Any) -> Json:
    start = move(span["offset"])
    end = move(span["offset"] + span["length"])
    return {**span, "offset": start, "length": end - start}
