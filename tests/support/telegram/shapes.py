"""The contents of updates that only tests send: stickers, places, polls, forwards, quotes. Pure."""

from collections.abc import Sequence

from bot.sim.telegram.entities import count_utf16_units
from bot.sim.telegram.params import Json
from bot.sim.telegram.shapes import file_fields, file_id_fields

_DICE_FACES = {"🎲": 6, "🎯": 6, "🎳": 6, "🏀": 5, "⚽": 5, "🎰": 64}


def sticker_fields(file_id: str, emoji: str) -> Json:
    shape = {"type": "regular", "emoji": emoji, "width": 512, "height": 512}
    return file_id_fields(file_id) | shape | {"is_animated": False, "is_video": False}


def video_fields(file_id: str, size: int, seconds: int, name: str = "") -> Json:
    """A video, or a GIF that is one."""
    file = file_fields(file_id, size, "video/mp4") | {"width": 640, "height": 480, "duration": seconds}
    return file | ({"file_name": name} if name else {})


def location_fields(latitude: float, longitude: float) -> Json:
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise ValueError("a location has a latitude of -90 to 90 and a longitude of -180 to 180")
    return {"latitude": latitude, "longitude": longitude}


def contact_fields(phone_number: str, first_name: str, last_name: str) -> Json:
    return {"phone_number": phone_number, "first_name": first_name} | (
        {"last_name": last_name} if last_name else {}
    )


def poll_fields(poll_id: str, question: str, options: Sequence[str]) -> Json:
    """A poll that nobody has voted in."""
    if not (
        1 <= len(question) <= 300 and 1 <= len(options) <= 12 and all(0 < len(o) <= 100 for o in options)
    ):
        raise ValueError("a poll has a question of 1 to 300 letters and 1 to 12 options of 1 to 100")
    return {
        "id": poll_id,
        "question": question,
        "options": [
            {"persistent_id": str(number), "text": option, "voter_count": 0}
            for number, option in enumerate(options)
        ],
        "total_voter_count": 0,
        "is_closed": False,
        "is_anonymous": True,
        "type": "regular",
        "allows_multiple_answers": False,
        "allows_revoting": True,
        "members_only": False,
    }


def dice_fields(emoji: str, value: int) -> Json:
    if not 1 <= value <= _DICE_FACES.get(emoji, 0):
        raise ValueError(f"{emoji} never shows {value}")
    return {"emoji": emoji, "value": value}


def forward_origin(sender: Json | str, date: int) -> Json:
    """The origin of a forwarded message: a user, or the name of someone who hides theirs."""
    if isinstance(sender, str):
        return {"type": "hidden_user", "date": date, "sender_user_name": sender}
    return {"type": "user", "date": date, "sender_user": sender}


def quote_fields(raw: Json, quote: str) -> Json:
    """The words of a message that a reply quotes."""
    text = str(raw.get("text", raw.get("caption", "")))
    position = count_utf16_units(text[: max(0, text.find(quote))])
    return {"quote": {"text": quote, "position": position, "is_manual": True}}
