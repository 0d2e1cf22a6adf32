"""The clock: what time it is somewhere, by IANA zone, well-known city or offset from UTC."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from tools.base import ToolContext, ToolError, tool

OFFSET_PATTERN = re.compile(r"(?:utc|gmt)?\s*([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)


@tool(repeatable=True, thinking="never", timeout=5)
async def clock(context: ToolContext, zone: str = "") -> str:
    """Date, weekday and time now, the user's or of a city or zone."""
    now = await context.now()
    name = str(now.tzinfo)
    if zone.strip():
        name, zone_info = find_zone(zone)
        now = now.astimezone(zone_info)
    return f"{now:%A, %Y-%m-%d %H:%M:%S} in {name} ({_format_offset(now)})"


def find_zone(zone_text: str) -> tuple[str, tzinfo]:
    """A zone and its name, by IANA name, city or offset such as `UTC+5:30`.

    Raises ToolError, naming zones that are close.
    """
    offset = OFFSET_PATTERN.fullmatch(zone_text.strip())
    if offset:
        return _parse_offset(offset)
    if zone := find_named_zone(zone_text):
        return zone, ZoneInfo(zone)
    if close := list_close_zones(zone_text):
        advice = f"did you mean {', '.join(close)}?"
    else:
        advice = "give an IANA zone such as Europe/Paris."
    raise ToolError(f"No time zone is called {zone_text[:60]!r}; {advice}")


def find_named_zone(zone_text: str) -> str | None:
    """The IANA name of a zone by that name, or by a city; None if there is none."""
    zones = _load_zone_names()
    requested = normalize_name(zone_text)
    # "Paris, France", "Tokyo (Japan)" and "上海市" name the city first.
    return zones.get(requested) or zones.get(re.split(r"[,(]|市$", requested)[0].strip())


def list_close_zones(zone_text: str) -> list[str]:
    """The IANA names of zones whose names, or whose cities, are spelled much like this."""
    zones = _load_zone_names()
    close = get_close_matches(normalize_name(zone_text), zones, n=5, cutoff=0.7)
    return list(dict.fromkeys(zones[name] for name in close))


def _parse_offset(match: re.Match[str]) -> tuple[str, tzinfo]:
    sign = match[1]
    hours = int(match[2])
    minutes = int(match[3] or 0)
    if hours > 14:
        raise ToolError("No place on Earth is more than 14 hours from UTC.")
    offset = timedelta(hours=hours, minutes=minutes)
    if sign == "-":
        offset = -offset
    return f"UTC{sign}{hours:02}:{minutes:02}", timezone(offset)


@cache
def _load_zone_names() -> Mapping[str, str]:
    """Zones by normalized name: their own, its last part, and the cities of both tables."""
    names = (files("tzdata") / "zones").read_text().split()
    zones = {
        normalize_name(name.rpartition("/")[2]): name
        for name in names
        if "/" in name and not name.startswith("Etc/")
    }
    for table in ("cldr_cities.txt", "cities.txt"):
        for line in (files(__package__) / table).read_text("utf-8").splitlines()[1:]:
            zone, _, cities = line.partition(": ")
            zones |= {normalize_name(city): zone for city in cities.split(", ")}
    return zones | {normalize_name(name): name for name in names}


def normalize_name(name: str) -> str:
    """Return a name without case, accents, hyphens and symbols, in any script."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    if not plain.isascii():
        plain = "".join(char for char in plain if char.isascii() or char.isalnum())
    return " ".join(plain.replace("_", " ").replace("-", " ").split())


def _format_offset(now: datetime) -> str:
    seconds = (now.utcoffset() or timedelta()).total_seconds()
    hours, minutes = divmod(round(abs(seconds)) // 60, 60)
    sign = "-" if seconds < 0 else "+"
    return f"UTC{sign}{hours:02}:{minutes:02}"
