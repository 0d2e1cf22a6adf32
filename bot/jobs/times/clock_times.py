"""Times of day as people say them, in English and German: found in a phrase, and taken out of it. Pure."""

import re
from dataclasses import dataclass
from datetime import time

from bot.jobs.times.errors import Unclear

_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
)
_COUNTS = {word: str(number) for row in _NUMBERS for number, word in enumerate(row.split(), start=1)}
_COUNTS |= {"fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40", "forty-five": "45", "sixty": "60"}
_COUNTS |= {"fünfzehn": "15", "zwanzig": "20", "dreißig": "30", "dreissig": "30", "ein": "1", "zwo": "2"}
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")

_ISO = re.compile(r"(?<=\d-\d\d)t(?=\d)")
_ENDS_IN_DATE = re.compile(r"(?:\d\.\s?|\b(?:am|den|der|dem|zum|jeden)\s+)\d{1,2}\.$")

MORNING = time(9)
NOON = time(12)
AFTERNOON = time(15)
EVENING = time(19)
NIGHT = time(21)
SEVERAL = "I see more than one time of day there. Say one, such as: tomorrow at 9:00."
HALVES = "Say am or pm with each of these times, such as: every day at 8 am and 8 pm."
_PARTS = {
    "morning": MORNING,
    "early": MORNING,
    "früh": MORNING,
    "morgens": MORNING,
    "am morgen": MORNING,
    "vormittags": MORNING,
    "vormittag": MORNING,
    "afternoon": AFTERNOON,
    "nachmittags": AFTERNOON,
    "nachmittag": AFTERNOON,
    "evening": EVENING,
    "abends": EVENING,
    "abend": EVENING,
    "tonight": EVENING,
    "at night": NIGHT,
    "night": NIGHT,
    "nachts": NIGHT,
}
_NOW_ON = re.compile(r"this\b|tonight")
EARLY = time(5)  # what is before that belongs to the night, or the evening, before
_FIXED = {
    "noon": NOON,
    "midday": NOON,
    "mittags": NOON,
    "mittag": NOON,
    "midnight": time(0),
    "mitternacht": time(0),
}

_AT = r"(?:(?:\b(?:at|um|gegen|by)|@)\s*)"
_PART = r"(?:(?:in the|in der|am|this)\s+)?(?P<part>" + "|".join(sorted(_PARTS, key=len, reverse=True)) + ")"
_QUARTERS = {
    "half past": 30,
    "quarter past": 15,
    "quarter to": -15,
    "viertel nach": 15,
    "viertel vor": -15,
    "halb": -30,
}
_SPOKEN = re.compile(rf"{_AT}?(?P<how>{'|'.join(_QUARTERS)})\s+(?P<hour>\d{{1,2}})\b(?:\s*uhr)?")
_SUFFIX = r"(?:[ap]\.?m\b|uhr\b|o'?clock)"
_CLOCK = re.compile(
    rf"(?:{_AT}(?P<at>\d{{1,2}})(?:[:.](?P<at_minute>\d{{2}})(?!\d|\.)(?::00)?)?(?={_SUFFIX}|(?![\d./:-]|\w))|"
    rf"(?<![\d.:/-])(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{2}})(?::00)?(?={_SUFFIX}|(?![\d:]|\w))|"
    rf"\.(?P<dotted>\d{{2}})(?=\s*{_SUFFIX})|(?=\s*{_SUFFIX})))"
    r"\s*(?P<half>[ap])?(?(half)\.?m\b\.?)(?:\s*(?:uhr|o'?clock)(?:\s+(?P<past>\d{1,2})\b)?)?"
)
_NAMED = re.compile(rf"{_AT}?(?:am\s+)?\b(?P<fixed>{'|'.join(_FIXED)})\b")
_ABOUT = re.compile(rf"\b{_PART}\b")
_AND = re.compile(
    r"\s*(?:,|and|und|&)\s*(?:(?:at|um)\s+)?(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?"
    r"\s*(?P<half>[ap])?(?(half)\.?m\b\.?)(?=\s*(?:,|$|and\b|und\b|&|uhr))(?:\s*uhr)?"
)


@dataclass(frozen=True, slots=True)
class Found:
    """Times of day, in order, and the phrase without them; `after_midnight`: of a night that began the day
    before.
    """

    times: tuple[time, ...]
    rest: str
    after_midnight: bool = False


def plain(words: str) -> str:
    """A phrase in small letters, with single spaces and its small numbers as digits."""
    spaced = " ".join(words.lower().replace("’", "'").split())
    counted = _WORD.sub(lambda found: _COUNTS.get(found[0], found[0]), _ISO.sub(" ", spaced)).strip(" ,;!")
    if _ENDS_IN_DATE.search(counted):
        return counted
    return counted.strip(" .,;!")


def find(phrase: str) -> Found:
    """The times of day of a plain phrase. Raises Unclear for one that no clock shows, or for several that
    disagree.
    """
    spoken = _SPOKEN.search(phrase)
    clock = None if spoken else _CLOCK.search(phrase)
    named = None if spoken or clock else _NAMED.search(phrase)
    found = spoken or clock or named
    rest = phrase if found is None else _without(phrase, found)
    more, rest = _further(phrase, found) if clock else ((), rest)
    about = _ABOUT.search(rest)
    part = _PARTS[about["part"]] if about else None
    if about:
        rest = _without(rest, about)
        rest = "today" if not rest and _NOW_ON.match(about[0]) else rest
    if found is None:
        return Found((part,) if part else (), rest)
    if spoken:
        first = _spoken(spoken)
    else:
        if clock:
            first = _clock(clock)
        else:
            first = _FIXED[named["fixed"]] if named else NOON
    if _CLOCK.search(rest) or _SPOKEN.search(rest) or _NAMED.search(rest):
        raise Unclear(SEVERAL, told=False)
    half = clock is not None and clock["half"]
    if named or half:
        times = (first, *more)
    else:
        times = tuple(_towards(one, part) for one in (first, *more))
    is_small = part in (EVENING, NIGHT) and any(at < EARLY for at in times)
    return Found(tuple(sorted(set(times))), "" if is_small and rest == "today" else rest, is_small)


def _without(phrase: str, found: re.Match[str]) -> str:
    return " ".join((phrase[: found.start()] + " " + phrase[found.end() :]).split()).strip(" ,")


def _further(phrase: str, clock: re.Match[str] | None) -> tuple[tuple[time, ...], str]:
    """The times that follow in a list, such as `at 8 and 18:30`."""
    assert clock is not None
    times = list[time]()
    end = clock.end()
    while more := _AND.match(phrase, end):
        if bool(more["half"]) != bool(clock["half"]):
            raise Unclear(HALVES, told=False)
        times.append(_halved(int(more["hour"]), int(more["minute"] or 0), more["half"]))
        end = more.end()
    return tuple(times), " ".join((phrase[: clock.start()] + " " + phrase[end:]).split()).strip(" ,")


def _spoken(found: re.Match[str]) -> time:
    hour = int(found["hour"])
    away = _QUARTERS[found["how"]]
    _made(hour, 0)
    minutes = (hour * 60 + away) % (24 * 60)
    return time(minutes // 60, minutes % 60)


def _clock(found: re.Match[str]) -> time:
    hour = int(found["at"] or found["hour"])
    minute = int(found["at_minute"] or found["minute"] or found["dotted"] or found["past"] or 0)
    return _halved(hour, minute, found["half"])


def _halved(hour: int, minute: int, half: str | None) -> time:
    """The time of day, `half` of it being told by `a`m or `p`m."""
    if half:
        if not 1 <= hour <= 12:
            raise Unclear(
                f"There is no {hour} {half}m. Say the hour as 1 to 12 with am or pm, or as 0 to 23 without."
            )
        hour = hour % 12 + (12 if half == "p" else 0)
    return _made(hour, minute)


def _made(hour: int, minute: int) -> time:
    if hour == 24 and minute == 0:
        return time(0)
    if hour > 23 or minute > 59:
        raise Unclear(f"No clock shows {hour}:{minute:02}. Say a time between 0:00 and 23:59.")
    return time(hour, minute)


def _towards(at: time, part: time | None) -> time:
    """The same on the clock's other half, where the part of the day says so."""
    if part in (EVENING, NIGHT) and (at < EARLY or at.hour == 12):
        return at.replace(hour=at.hour % 12)
    if part is None or part == MORNING or not 1 <= at.hour <= 11:
        return at
    return at.replace(hour=at.hour + 12)
