"""Time zones by the names people give them. Pure."""

import re

from bot.jobs.times.errors import UnclearTime
from tools.base import ToolError
from tools.builtin.clock import find_zone

_OFFSET = re.compile(r"\s*(?:(?:utc|gmt)?\s*[+-]\s*\d.*|(?:est|mst)\s*)", re.IGNORECASE)


def resolve_zone(text: str) -> str:
    """The IANA name of a zone, by that name or by a city. Raises Unclear with what is close."""
    if not text.strip():
        raise UnclearTime("Say a city or a zone, such as: /zone Berlin, or /zone Europe/Paris.")
    if _OFFSET.fullmatch(text):
        raise UnclearTime("An offset knows no summer time. Say a city or a zone, such as: /zone Berlin.")
    try:
        return find_zone(text)[0]
    except ToolError as error:
        raise UnclearTime(str(error)) from None
