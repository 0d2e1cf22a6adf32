"""Writes bot/jobs/times/calendar_words.txt: days, months and how long from now in all languages of CLDR.

Run it as `python -m tests.jobs.times.calendar_words` after Babel was updated.
"""

from collections.abc import Iterator
from pathlib import Path

from babel import Locale, localedata

from bot.jobs.times import time_words

FILE = Path(time_words.__file__).with_name("calendar_words.txt")
INFLECTED = "be bg bs cs da dsb el et fi hr hsb hu lt lv mk nb nn no pl ro ru sk sl sr sr_Latn sv uk"
UNITS = ("minute", "hour", "day", "week", "month", "year")
READ_LANGUAGES = ("en", "de")  # the grammar reads how long from now in them
MIN_CHARS = 4  # of a name in plain ASCII: a shorter one is a word of too many languages
MIN_PIECE_CHARS = 3  # of one that may stand within a word, unless a character is a whole syllable or word
# Names of a day or a month in one language that are people, or everyday words, in others.
ORDINARY = """
acer anna aram araba arim bazar camus china dame gener gulan here jona julie kari kolo kudo lengua mach malaki
mande mane marca march marco maris masa mata may medi moja noema out pazar rags salus sani sanyo sine
wanja yedi
"""
HEAD = "# Days, months and times from now, each with one of its languages. Written from CLDR; do not edit.\n"


def render_words() -> str:
    """The whole file: a line a language, with the names that no language before it has."""
    lines = list[str]()
    seen = set[str]()
    for code in sorted(localedata.locale_identifiers()):
        locale = Locale.parse(code)
        if locale.territory:
            continue
        names = sorted(set(_list_names(locale)) - seen)
        seen.update(names)
        words = [name.replace(" ", "_") for name in names if _can_tell(name)]
        if code in INFLECTED.split():
            words += sorted({stem for name in names if (stem := _build_stem(name))} - seen)
        if words:
            lines.append(f"{code}: {' '.join(words)}\n")
    return HEAD + "".join(lines)


def _list_names(locale: Locale) -> Iterator[str]:
    for calendar in (locale.days, locale.months):
        for context in ("format", "stand-alone"):
            for name in calendar.get(context, {}).get("wide", {}).values():
                yield time_words.normalize_text(name).strip(" .")
    fields = {} if locale.language in READ_LANGUAGES else localedata.load(str(locale)).get("date_fields", {})
    for unit in UNITS:
        for count, pattern in fields.get(unit, {}).get("future", {}).items():
            phrase = time_words.normalize_text(pattern.replace("{0}", "0"))
            yield phrase.strip(" .")
            if count == "one" and len(phrase.split()) > 2:
                yield phrase.replace(" 0 ", " ").strip(" .")


def _can_tell(name: str) -> bool:
    """Tell whether a name says that a text is about a time."""
    if name in ORDINARY.split():
        return False
    if name.isascii():
        return len(name) >= MIN_CHARS
    return len(name) >= MIN_PIECE_CHARS or (len(name) > 1 and name[-1] >= "\u3040")


def _build_stem(name: str) -> str:
    """The name without its last letters, for other cases; "" of one too short for that."""
    if " " in name or len(name) < 6:
        return ""
    return f"{name[:-1] if len(name) == 6 else name[:-2]}*"


if __name__ == "__main__":
    FILE.write_text(render_words(), encoding="utf-8")
