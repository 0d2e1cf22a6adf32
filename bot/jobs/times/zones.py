"""Time zones by the names people give them. Pure."""

import re

from bot.jobs.times.errors import Unclear
from tools.base import ToolError
from tools.builtin.clock import find_zone

_OFFSET = re.compile(r"\s*(?:(?:utc|gmt)?\s*[+-]\s*\d.*|(?:est|mst)\s*)", re.IGNORECASE)


def find(words: str) -> str:
    """The IANA name of a zone, by that name or by a city. Raises Unclear with what is close."""
    if not words.strip():
        raise Unclear("Say a city or a zone, such as: /zone Berlin, or /zone Europe/Paris.")
    if _OFFSET.fullmatch(words):
        raise Unclear("An offset knows no summer time. Say a city or a zone, such as: /zone Berlin.")
    try:
        return find_zone(words)[0]
    except ToolError as error:
        raise Unclear(str(error)) from None
