"""Times of day as people say them, in English and German: found in a phrase, and taken out of it.

Pure.
"""

import re
from dataclasses import dataclass
from datetime import time
from functools import cache
from importlib.resources import files

from bot.jobs.times.zones import UnclearTime
from bot.translations.translator import translatable

_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn zwanzig",
)
_DIGITS_BY_WORD = {word: str(number) for row in _NUMBERS for number, word in enumerate(row.split(), start=1)}
_DIGITS_BY_WORD |= {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60"}
_DIGITS_BY_WORD |= {"twenty-five": "25", "thirty-five": "35", "forty-five": "45", "fifty-five": "55"}
_DIGITS_BY_WORD |= {"dreißig": "30", "dreissig": "30", "ein": "1", "zwo": "2"}
_DIGITS_BY_WORD |= {"vierzig": "40", "fünfzig": "50", "fünfundvierzig": "45"}
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")

_ISO_SEPARATOR = re.compile(r"(?<=\d-\d\d)t(?=\d)")
_ENDS_IN_DATE = re.compile(r"(?:\d\.\s?|\b(?:am|den|der|dem|zum|jeden)\s+)\d{1,2}\.$")

MORNING = time(9)
NOON = time(12)
AFTERNOON = time(15)
EVENING = time(19)
NIGHT = time(21)
SEVERAL_TIMES = translatable(
    "I see more than one time of day there. Name just one, such as `tomorrow at 9:00`."
)
AM_PM_MISSING = translatable("Say am or pm with each of these times, such as `every day at 8 am and 8 pm`.")
_PARTS_OF_DAY = {
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
    "nacht": NIGHT,
}
_TODAY_PART = re.compile(r"this\b|tonight")
NIGHT_END = time(5)  # an earlier time belongs to the night, or the evening, before
_NAMED_TIMES = {
    "noon": NOON,
    "midday": NOON,
    "mittags": NOON,
    "mittag": NOON,
    "midnight": time(0),
    "mitternacht": time(0),
}

_AT = r"(?:(?:\b(?:at|um|gegen|by)|@)\s*)"
_PART = (
    r"(?:(?:in the|in der|am|this)\s+)?(?P<part>"
    + "|".join(sorted(_PARTS_OF_DAY, key=len, reverse=True))
    + ")"
)
_QUARTERS = {
    "half past": 30,
    "quarter past": 15,
    "quarter to": -15,
    "viertel nach": 15,
    "viertel vor": -15,
    "halb": -30,
    "dreiviertel": -15,
}
_MINUTES = (
    r"(?<!every )(?<!alle )(?P<minutes>\d{1,2}) (?P<unit>min(?:uten|utes?) )?"
    r"(?P<side>vor|nach|past|(?(unit)to|(?!)))(?P<half> halb)?"
)
_SPOKEN_TIME = re.compile(
    rf"{_AT}?(?:{_MINUTES}|(?P<how>{'|'.join(_QUARTERS)}))\s+(?P<hour>\d{{1,2}})\b(?:\s*uhr)?"
)
_SUFFIX = r"(?:[ap]\.?m\b|uhr\b|o'?clock)"
_CLOCK_TIME = re.compile(
    rf"(?:{_AT}(?P<at>\d{{1,2}})(?:[:.](?P<at_minute>\d{{2}})(?!\d|\.)(?::00)?)?"
    rf"(?={_SUFFIX}|(?![\d./:-]|\w))|"
    rf"(?<![\d.:/-])(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{2}})(?::00)?(?={_SUFFIX}|(?![\d:]|\w))|"
    rf"\.(?P<dotted>\d{{2}})(?=\s*{_SUFFIX})|(?=\s*{_SUFFIX})))"
    r"\s*(?P<half>[ap])?(?(half)\.?m\b\.?)(?:\s*(?:uhr|o'?clock)(?:\s+(?P<past>\d{1,2})\b)?)?"
)
_NAMED_TIME = re.compile(rf"{_AT}?(?:am\s+)?\b(?P<fixed>{'|'.join(_NAMED_TIMES)})\b")
_PART_OF_DAY = re.compile(rf"\b{_PART}\b")
_FURTHER_TIME = re.compile(
    r"\s*(?:,|and|und|&)\s*(?:(?:at|um)\s+)?(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?"
    r"\s*(?P<half>[ap])?(?(half)\.?m\b\.?)(?=\s*(?:,|$|and\b|und\b|&|uhr))(?:\s*uhr)?"
)


@dataclass(frozen=True, slots=True)
class TimesOfDay:
    """Times of day, in order, and the phrase without them.

    `is_after_midnight`: they belong to a night that began the day before.
    """

    times: tuple[time, ...]
    rest: str
    is_after_midnight: bool = False


def normalize_phrase(text: str) -> str:
    """Return a phrase in small letters, with single spaces and its small numbers as digits."""
    spaced = " ".join(text.lower().replace("’", "'").split())
    spaced = _ISO_SEPARATOR.sub(" ", spaced)
    for pattern, plain_words in _load_idioms():
        spaced = pattern.sub(plain_words, spaced)
    with_digits = _WORD.sub(lambda match: _DIGITS_BY_WORD.get(match[0], match[0]), spaced).strip(" ,;!")
    if _ENDS_IN_DATE.search(with_digits):
        return with_digits
    return with_digits.strip(" .,;!")


@cache
def _load_idioms() -> list[tuple[re.Pattern[str], str]]:
    """What to look for, and the words that the grammar reads, in this order."""
    table = (files(__package__) / "phrases" / "idioms.txt").read_text("utf-8")
    rows = [line.split(" = ") for line in table.splitlines() if not line.startswith("#")]
    return [(re.compile(rf"\b(?:{said.replace(' | ', '|')})\b"), plain_words) for plain_words, said in rows]


def find_times(phrase: str) -> TimesOfDay:
    """Find the times of day of a plain phrase.

    Raises UnclearTime for one that no clock shows, or for several that disagree.
    """
    times: tuple[time, ...] = ()
    rest = phrase
    is_exact = False  # a part of the day such as "in the evening" does not move it
    if match := _SPOKEN_TIME.search(phrase):
        times = (_parse_spoken_time(match),)
        rest = _remove_match(phrase, match)
    elif match := _CLOCK_TIME.search(phrase):
        further_times, rest = _find_further_times(phrase, match)
        times = (_parse_clock_time(match), *further_times)
        is_exact = bool(match["half"])
    elif match := _NAMED_TIME.search(phrase):
        times = (_NAMED_TIMES[match["fixed"]],)
        rest = _remove_match(phrase, match)
        is_exact = True
    part, rest = _extract_part_of_day(rest)
    if not times:
        return TimesOfDay((part,) if part else (), rest)
    if _CLOCK_TIME.search(rest) or _SPOKEN_TIME.search(rest) or _NAMED_TIME.search(rest):
        raise UnclearTime(SEVERAL_TIMES, has_reason=False)
    if not is_exact:
        times = tuple(_apply_part_of_day(clock_time, part) for clock_time in times)
    is_after_midnight = part in (EVENING, NIGHT) and any(clock_time < NIGHT_END for clock_time in times)
    if rest in {"today", "heute"} and (is_after_midnight or times == (time(0),)):
        rest = ""  # what people call today at night has the next day's date
    return TimesOfDay(tuple(sorted(set(times))), rest, is_after_midnight)


def _extract_part_of_day(phrase: str) -> tuple[time | None, str]:
    """The part of the day that a phrase names, and the phrase without it; `tonight` alone leaves `today`."""
    match = _PART_OF_DAY.search(phrase)
    if match is None:
        return None, phrase
    rest = _remove_match(phrase, match)
    if not rest and _TODAY_PART.match(match[0]):
        rest = "today"
    return _PARTS_OF_DAY[match["part"]], rest


def _remove_match(phrase: str, match: re.Match[str]) -> str:
    return " ".join((phrase[: match.start()] + " " + phrase[match.end() :]).split()).strip(" ,")


def _find_further_times(phrase: str, clock_match: re.Match[str]) -> tuple[tuple[time, ...], str]:
    """The times that follow in a list, such as `at 8 and 18:30`, and the phrase without any of them."""
    times = list[time]()
    end = clock_match.end()
    while more := _FURTHER_TIME.match(phrase, end):
        if bool(more["half"]) != bool(clock_match["half"]):
            raise UnclearTime(AM_PM_MISSING)
        times.append(_to_24_hours(int(more["hour"]), int(more["minute"] or 0), more["half"]))
        end = more.end()
    return tuple(times), " ".join((phrase[: clock_match.start()] + " " + phrase[end:]).split()).strip(" ,")


def _parse_spoken_time(match: re.Match[str]) -> time:
    hour = int(match["hour"])
    offset_minutes = _QUARTERS[match["how"]] if match["how"] else int(match["minutes"])
    if match["side"] in {"to", "vor"}:
        offset_minutes = -offset_minutes
    if match["half"]:
        offset_minutes -= 30
    _build_time(hour, 0)  # refuses an hour that no clock shows
    minutes = (hour * 60 + offset_minutes) % (24 * 60)
    return time(minutes // 60, minutes % 60)


def _parse_clock_time(match: re.Match[str]) -> time:
    hour = int(match["at"] or match["hour"])
    minute = int(match["at_minute"] or match["minute"] or match["dotted"] or match["past"] or 0)
    return _to_24_hours(hour, minute, match["half"])


def _to_24_hours(hour: int, minute: int, half: str | None) -> time:
    """The time of day; `half` is `a` for am and `p` for pm."""
    if half:
        if not 1 <= hour <= 12:
            raise UnclearTime(
                translatable("There's no hour {hour}. Use 1 to 12 with am or pm, or 0 to 23."),
                hour=f"{hour} {half}m",
            )
        hour %= 12
        if half == "p":
            hour += 12
    return _build_time(hour, minute)


def _build_time(hour: int, minute: int) -> time:
    if hour == 24 and minute == 0:
        return time(0)
    if hour > 23 or minute > 59:
        raise UnclearTime(
            translatable("{time} isn't a time. Use 0:00 to 23:59."),
            time=f"{hour}:{minute:02}",
        )
    return time(hour, minute)


def _apply_part_of_day(clock_time: time, part: time | None) -> time:
    """The same time on the other half of the clock, where the part of the day says so."""
    if part in (EVENING, NIGHT) and (clock_time < NIGHT_END or clock_time.hour == 12):
        return clock_time.replace(hour=clock_time.hour % 12)
    if part is None or part == MORNING or not 1 <= clock_time.hour <= 11:
        return clock_time
    return clock_time.replace(hour=clock_time.hour + 12)
