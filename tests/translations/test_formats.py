"""Each language writes numbers, shares, sizes, times, dates and lists in its own way, as CLDR says."""

from collections.abc import Callable
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from bot.translations import formats
from bot.translations.translator import ENGLISH, LANGUAGES, Translator, load_translator

BERLIN = ZoneInfo("Europe/Berlin")
SUNDAY = 1_795_336_200.0  # 22 November 2026, 09:30 in Berlin
DAY = 86_400.0

TEXTS: dict[str, Callable[[Translator], str]] = {
    "number": lambda t: formats.format_number(t, 24_000),
    "decimals": lambda t: formats.format_number(t, 1234.56, decimals=1),
    "short": lambda t: formats.abbreviate_number(t, 12_999),
    "shorter": lambda t: formats.abbreviate_number(t, 1_299_999),
    "share": lambda t: formats.format_share(t, 0.175),
    "whole share": lambda t: formats.format_share(t, 0.8),
    "size": lambda t: formats.format_size(t, 64_172_851),
    "milliseconds": lambda t: formats.format_unit(t, 1234, "duration-millisecond"),
    "seconds": lambda t: formats.format_duration(t, 6.4),
    "minutes": lambda t: formats.format_duration(t, 1260),
    "hours": lambda t: formats.format_duration(t, 7200),
    "one hour": lambda t: formats.format_span(t, 3600, "hour"),
    "a minute ago": lambda t: formats.format_ago(t, 61),
    "days ago": lambda t: formats.format_ago(t, 14 * DAY),
    "date": lambda t: formats.format_date(t, date(2026, 9, 1)),
    "weekday and date": lambda t: formats.format_date(t, date(2026, 12, 24), "yMMMEd"),
    "moment": lambda t: formats.format_moment(t, SUNDAY, BERLIN),
    "long date": lambda t: formats.format_date(t, date(2026, 12, 24), "long"),
    "first day": lambda t: formats.format_date(t, date(2026, 1, 1), "long"),
    "day of a year": lambda t: formats.format_date(t, date(2000, 2, 29), "MMMMd"),
    "weekday": lambda t: formats.format_weekday(t, 3),
    "two": lambda t: formats.format_list(t, ["a", "b"]),
    "list": lambda t: formats.format_list(t, ["a", "b", "c"]),
    "series": lambda t: formats.format_series(t, ["a", "b", "c"]),
}
EXPECTED = {
    "en": {
        "number": "24,000",
        "decimals": "1,234.6",
        "short": "12K",
        "shorter": "1.2M",
        "share": "17.5%",
        "whole share": "80%",
        "size": "61.2 MB",
        "milliseconds": "1,234 ms",
        "seconds": "6.4s",
        "minutes": "21m",
        "hours": "2h",
        "one hour": "1 hr",
        "a minute ago": "a minute ago",
        "days ago": "14 days ago",
        "date": "1 Sep 2026",
        "weekday and date": "Thu 24 Dec 2026",
        "moment": "Sun 22 Nov 2026, 09:30",
        "long date": "24 December 2026",
        "first day": "1 January 2026",
        "day of a year": "29 February",
        "weekday": "Thursday",
        "two": "a and b",
        "list": "a, b and c",
        "series": "a, b, c",
    },
    "de": {
        "number": "24.000",
        "decimals": "1.234,6",
        "short": "12.999",
        "shorter": "1,2\u00a0Mio.",
        "share": "17,5\u00a0%",
        "whole share": "80\u00a0%",
        "size": "61,2 MB",
        "milliseconds": "1.234 ms",
        "seconds": "6,4 Sek.",
        "minutes": "21 Min.",
        "hours": "2 Std.",
        "one hour": "1 Std.",
        "a minute ago": "vor 1 Minute",
        "days ago": "vor 14 Tagen",
        "date": "1. Sept. 2026",
        "weekday and date": "Do., 24. Dez. 2026",
        "moment": "So., 22. Nov. 2026, 09:30",
        "long date": "24. Dezember 2026",
        "first day": "1. Januar 2026",
        "day of a year": "29. Februar",
        "weekday": "Donnerstag",
        "two": "a und b",
        "list": "a, b und c",
        "series": "a, b, c",
    },
    "es": {
        "number": "24.000",
        "decimals": "1.234,6",
        "short": "12\u00a0mil",
        "shorter": "1,2\u00a0M",
        "share": "17,5\u00a0%",
        "whole share": "80\u00a0%",
        "size": "61,2 MB",
        "milliseconds": "1.234 ms",
        "seconds": "6,4 s",
        "minutes": "21 min",
        "hours": "2 h",
        "one hour": "1 h",
        "a minute ago": "hace 1 minuto",
        "days ago": "hace 14 días",
        "date": "1 sept 2026",
        "weekday and date": "jue, 24 dic 2026",
        "moment": "dom, 22 nov 2026, 09:30",
        "long date": "24 de diciembre de 2026",
        "first day": "1 de enero de 2026",
        "day of a year": "29 de febrero",
        "weekday": "jueves",
        "two": "a y b",
        "list": "a, b y c",
        "series": "a, b, c",
    },
    "fr": {
        "number": "24\u202f000",
        "decimals": "1\u202f234,6",
        "short": "12\u00a0k",
        "shorter": "1,2\u00a0M",
        "share": "17,5\u00a0%",
        "whole share": "80\u00a0%",
        "size": "61,2\u202fMo",
        "milliseconds": "1\u202f234\u202fms",
        "seconds": "6,4\u202fs",
        "minutes": "21\u00a0min",
        "hours": "2\u202fh",
        "one hour": "1\u202fh",
        "a minute ago": "il y a 1 minute",
        "days ago": "il y a 14 jours",
        "date": "1er sept. 2026",
        "weekday and date": "jeu. 24 déc. 2026",
        "moment": "dim. 22 nov. 2026, 09:30",
        "long date": "24 décembre 2026",
        "first day": "1er janvier 2026",
        "day of a year": "29 février",
        "weekday": "jeudi",
        "two": "a et b",
        "list": "a, b et c",
        "series": "a, b, c",
    },
    "pt": {
        "number": "24.000",
        "decimals": "1.234,6",
        "short": "12\u00a0mil",
        "shorter": "1,2\u00a0mi",
        "share": "17,5%",
        "whole share": "80%",
        "size": "61,2 MB",
        "milliseconds": "1.234 ms",
        "seconds": "6,4 s",
        "minutes": "21 min",
        "hours": "2 h",
        "one hour": "1 h",
        "a minute ago": "há 1 minuto",
        "days ago": "há 14 dias",
        "date": "1 de set. de 2026",
        "weekday and date": "qui., 24 de dez. de 2026",
        "moment": "dom., 22 de nov. de 2026 09:30",
        "long date": "24 de dezembro de 2026",
        "first day": "1 de janeiro de 2026",
        "day of a year": "29 de fevereiro",
        "weekday": "quinta-feira",
        "two": "a e b",
        "list": "a, b e c",
        "series": "a, b, c",
    },
    "ru": {
        "number": "24\u00a0000",
        "decimals": "1\u00a0234,6",
        "short": "12\u00a0тыс.",
        "shorter": "1,2\u00a0млн",
        "share": "17,5\u00a0%",
        "whole share": "80\u00a0%",
        "size": "61,2 МБ",
        "milliseconds": "1\u00a0234 мс",
        "seconds": "6,4 с",
        "minutes": "21 мин",
        "hours": "2 ч",
        "one hour": "1 ч",
        "a minute ago": "1 минуту назад",
        "days ago": "14 дней назад",
        "date": "1 сент. 2026\u202fг.",
        "weekday and date": "чт, 24 дек. 2026\u202fг.",
        "moment": "вс, 22 нояб. 2026\u202fг., 09:30",
        "long date": "24 декабря 2026\u202fг.",
        "first day": "1 января 2026\u202fг.",
        "day of a year": "29 февраля",
        "weekday": "четверг",
        "two": "a и b",
        "list": "a, b и c",
        "series": "a, b, c",
    },
    "zh": {
        "number": "24,000",
        "decimals": "1,234.6",
        "short": "1.2万",
        "shorter": "120万",
        "share": "17.5%",
        "whole share": "80%",
        "size": "61.2 MB",
        "milliseconds": "1,234毫秒",
        "seconds": "6.4秒",
        "minutes": "21分钟",
        "hours": "2小时",
        "one hour": "1小时",
        "a minute ago": "1分钟前",
        "days ago": "14天前",
        "date": "2026年9月1日",
        "weekday and date": "2026年12月24日周四",
        "moment": "2026年11月22日周日 09:30",
        "long date": "2026年12月24日",
        "first day": "2026年1月1日",
        "day of a year": "2月29日",
        "weekday": "星期四",
        "two": "a和b",
        "list": "a、b和c",
        "series": "a、b、c",
    },
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_writes_figures_and_lists_in_its_own_way(language: str):
    translate = load_translator(language)
    assert {name: write(translate) for name, write in TEXTS.items()} == EXPECTED[language]


def test_english_dates_are_those_that_prompts_have():
    for number in range(366):
        day = date(2026, 1, 1) + timedelta(days=number)
        assert formats.format_date(ENGLISH, day) == f"{day.day} {day:%b %Y}"
        assert formats.format_date(ENGLISH, day, "yMMMEd") == f"{day:%a} {day.day} {day:%b %Y}"
        assert formats.format_date(ENGLISH, day, "long") == f"{day.day} {day:%B %Y}"
        assert formats.format_date(ENGLISH, day, "MMMMd") == f"{day.day} {day:%B}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("number", [0, 7, 999, 1000, 9_999, 10_000, 999_999, 1_000_000, 10**10 - 1])
def test_a_shortened_count_is_short_and_rounded_down(language: str, number: int):
    translate = load_translator(language)
    text = formats.abbreviate_number(translate, number)
    floor = int(str(number)[:2].ljust(len(str(number)), "0"))
    assert len(text) <= len("9,9 mil M")
    assert text in {formats.format_number(translate, number), formats.abbreviate_number(translate, floor)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_empty_or_alone_needs_no_separator(language: str):
    translate = load_translator(language)
    for join in (formats.format_list, formats.format_series):
        assert [join(translate, words) for words in ([], ["a"])] == ["", "a"]
