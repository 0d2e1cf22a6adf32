"""Time zones by the names people give them, and the error of words for a time. Pure."""

import re

from bot.errors import CanvasgramError
from tools.base import ToolError
from tools.builtin.clock import find_zone

_OFFSET = re.compile(r"\s*(?:(?:utc|gmt)?\s*[+-]\s*\d.*|(?:est|mst)\s*)", re.IGNORECASE)


class UnclearTime(CanvasgramError):
    """Words for a time that cannot be understood or meant; the text says why, and how to say it.

    `has_reason`: it is known what is wrong; else the words are just no words for a time.
    """

    def __init__(self, text: str, *, has_reason: bool = True) -> None:
        super().__init__(text)
        self.has_reason = has_reason


def resolve_zone(text: str) -> str:
    """Return the IANA name of a zone, by that name or by a city. Raises UnclearTime with what is close."""
    if not text.strip():
        raise UnclearTime("Say a city or a zone, such as: /zone Berlin, or /zone Europe/Paris.")
    if _OFFSET.fullmatch(text):
        raise UnclearTime("An offset knows no summer time. Say a city or a zone, such as: /zone Berlin.")
    try:
        return find_zone(text)[0]
    except ToolError as error:
        raise UnclearTime(str(error)) from None
