"""Describes in words what people share beside texts and files: locations, contacts, polls, stickers. Pure.

Lenient: what is missing or malformed is left out. `find_coordinates` reads the place itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot.agent.prompt import build_data_block
from bot.agent.sanitize import to_sendable

MAX_FIELD_CHARS = 300  # of a name, an address or a poll's option; Telegram allows fewer
MAX_OPTIONS = 30  # of a poll; Telegram allows fewer


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A place on earth, in degrees."""

    latitude: float
    longitude: float


def find_coordinates(message: dict[str, Any]) -> Coordinates | None:
    """Return the location that somebody shared themselves, in a raw message; not one they forwarded."""
    if "forward_origin" in message or "venue" in message:
        return None
    return _read_coordinates(message.get("location"))


def describe_shared_item(message: dict[str, Any]) -> str:
    """Describe what a raw message shares, such as `Location: 52.52, 13.405`; "" if it is nothing of that."""
    for key, describe in _DESCRIBERS.items():
        value = message.get(key)
        if isinstance(value, dict):
            return describe(value)
    return ""


def format_shared_item(message: dict[str, Any]) -> str:
    """Describe what a raw message shares, as data where strangers may have written it."""
    description = describe_shared_item(message)
    label = next((noun for key, noun in _OUTSIDE_NOUNS.items() if key in message), None)
    if label is None or not description:
        return description
    return build_data_block(f"shared {label}", description)


def _describe_venue(venue: dict[str, Any]) -> str:
    coordinates = _read_coordinates(venue.get("location"))
    place = _join(_read_text(venue, "title"), _read_text(venue, "address"))
    if coordinates is None:
        return f"Place: {place}" if place else ""
    return f"Place: {_join(place, _format_coordinates(coordinates))}"


def _describe_location(location: dict[str, Any]) -> str:
    coordinates = _read_coordinates(location)
    return f"Location: {_format_coordinates(coordinates)}" if coordinates else ""


def _describe_contact(contact: dict[str, Any]) -> str:
    name = f"{_read_text(contact, 'first_name')} {_read_text(contact, 'last_name')}".strip()
    card = _join(name, _read_text(contact, "phone_number"))
    return f"Contact: {card}" if card else ""


def _describe_poll(poll: dict[str, Any]) -> str:
    raw_options = poll.get("options")
    options = raw_options[:MAX_OPTIONS] if isinstance(raw_options, list) else []
    texts = [_read_text(option, "text") for option in options if isinstance(option, dict)]
    question = _read_text(poll, "question")
    if not (question or any(texts)):
        return ""
    return "\n".join([f"Poll: {question}", *(f"- {text}" for text in texts if text)])


def _describe_dice(dice: dict[str, Any]) -> str:
    value = dice.get("value")
    emoji = _read_text(dice, "emoji")
    return f"{emoji} shows {value}" if isinstance(value, int) and emoji else emoji


def _describe_sticker(sticker: dict[str, Any]) -> str:
    emoji = _read_text(sticker, "emoji")
    return f"(a sticker: {emoji})" if emoji else ""


_DESCRIBERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "venue": _describe_venue,  # also comes with a location
    "location": _describe_location,
    "contact": _describe_contact,
    "poll": _describe_poll,
    "dice": _describe_dice,
    "sticker": _describe_sticker,
}
_OUTSIDE_NOUNS = {"venue": "place", "contact": "contact"}


def _read_coordinates(location: object) -> Coordinates | None:
    match location:
        case {"latitude": int() | float() as latitude, "longitude": int() | float() as longitude}:
            if abs(latitude) <= 90 and abs(longitude) <= 180:
                return Coordinates(float(latitude), float(longitude))
    return None


def _format_coordinates(coordinates: Coordinates) -> str:
    """Format to five digits, which is a metre."""
    return f"{round(coordinates.latitude, 5)}, {round(coordinates.longitude, 5)}"


def _read_text(raw: dict[str, Any], key: str) -> str:
    value = raw.get(key)
    return to_sendable(value[:MAX_FIELD_CHARS]).strip() if isinstance(value, str) else ""


def _join(*texts: str) -> str:
    return ", ".join(text for text in texts if text)
