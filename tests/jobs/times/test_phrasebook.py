"""Times in Spanish, French, Portuguese, Russian and Chinese: they are set rightly, or not at all."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.jobs.times import rrules
from bot.jobs.times.parser import parse_line
from bot.jobs.times.phrasebook import LANGUAGES, load_phrasebook
from bot.jobs.times.reader import ParsedSchedule, parse_when
from bot.jobs.times.zones import UnclearTime

ZONE = "Europe/Berlin"
TZ = rrules.load_zone(ZONE)
NOW = rrules.to_timestamp(datetime(2026, 11, 23, 14, 0), TZ)  # a Monday
MIN_INTERVAL_SECONDS = 300
TEXTS = {
    "de": "Anna anrufen",
    "es": "llamar a Ana",
    "fr": "appeler Anna",
    "pt": "ligar para Ana",
    "ru": "позвонить Анне",
    "zh": "给安娜打电话",
}
SHOWN_PARTS = ("FREQ", "INTERVAL", "BYMONTH", "BYMONTHDAY", "BYDAY", "UNTIL")


def read_phrases() -> Iterator[tuple[str, str, str]]:
    """Yield the language, the words and the meaning of each line of the table."""
    language = ""
    table = Path(__file__).with_name("phrases.txt").read_text(encoding="utf-8")
    for line in table.splitlines()[1:]:
        if line.startswith("["):
            language = line.strip("[]")
        else:
            words, _, meaning = line.partition(" = ")
            yield language, words, meaning


PHRASES = list(read_phrases())


def describe(schedule: ParsedSchedule) -> str:
    first = f"{rrules.to_local_time(schedule.first_due, TZ):%a %m-%d %H:%M}"
    if schedule.rule is None:
        return first
    parts = (f"{name}={value}" for name, value in schedule.rule.parts if name in SHOWN_PARTS)
    return f"{first} {';'.join(parts)}"


@pytest.mark.parametrize(("language", "words", "meaning"), PHRASES)
def test_a_time_is_read_for_whoever_says_it(language: str, words: str, meaning: str):
    for spoken in (language, "en"):
        assert describe(parse_when(words, ZONE, NOW, MIN_INTERVAL_SECONDS, spoken)) == meaning


@pytest.mark.parametrize(("language", "words", "meaning"), PHRASES)
def test_a_time_may_stand_before_its_text_and_behind_it(language: str, words: str, meaning: str):
    text = TEXTS[language]
    blank = "" if language == "zh" else " "
    for line in (f"{words}{blank}{text}", f"{text}{blank}{words}"):
        schedule, rest = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS, language)
        assert (describe(schedule), rest) == (meaning, text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("recuérdame mañana a las 9 que llame a Ana", "llame a Ana"),
        ("Rappelle-moi demain à 9h d'appeler Anna", "appeler Anna"),
        ("me lembra amanhã às 9 de ligar para Ana", "ligar para Ana"),
        ("напомните мне, пожалуйста, завтра в 9 позвонить", "позвонить"),
        ("提醒我明天9点给安娜打电话", "给安娜打电话"),
        ("明天9点提醒我给安娜打电话", "给安娜打电话"),
        ("завтра в 9: в магазин до 10", "в магазин до 10"),
        ("mañana llamar a Ana a las 9", "llamar a Ana"),
    ],
)
def test_words_around_time_and_text_are_not_kept(line: str, text: str):
    schedule, rest = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS)
    assert (describe(schedule), rest) == ("Tue 11-24 09:00", text)


@pytest.mark.parametrize(
    "line",
    [
        "mañana a las 9 y a las 12 tomar la pastilla",
        "mañana a las 9 o a las 10 reunión",
        "mañana de 9 a 10 reunión",
        "cada lunes excepto festivos a las 9 correr",
        "todos los días hasta el viernes a las 9 correr",
        "el 31 de febrero a las 9 cena",
        "dentro de un rato té",
        "a las 25 té",
        "le mardi à 20h piscine",
        "demain à 9h ou 10h réunion",
        "le premier lundi du mois à 9h réunion",
        "à 9h du matin et 21h prendre le cachet",
        "amanhã às 9 ou às 10 reunião",
        "de 2 em 3 horas beber água",
        "через день в 9 бег",
        "завтра или послезавтра в 9 позвонить",
        "в 9:00 по Москве звонок",
        "завтра в 9 по Токио созвон",
        "завтра в 9 по киевскому времени созвон",
        "сегодня утром полить цветы",
        "hoy por la mañana regar",
        "каждую минуту дышать",
        "через 30 секунд чай",
        "с 9 до 10 завтра встреча",
        "下下周一9点开会",
        "下周末开会",
        "明天上午给安娜打电话九点",
        "demain en fin d'après-midi réunion",
        "réunion le dernier jour du mois à 17h",
        "reunión a las veinte y pico por la tarde",
        "Anna anrufen zweimal täglich",
        "tomorrow about 4 pm call Anna",
        "tomorrow 9-10 meeting",
        "next month on the 5th at 10 call Anna",
        "appeler Anna avant 9h",
        "mañana antes de las 9 llamar a Ana",
        "晚上8点到9点开会",
        "明天9点前给安娜打电话",
        "明天9点或10点开会",
        "明天9点东京时间开会",
        "demain à 9h heure de Tokyo appel",
        "amanhã às 9 no horário de Lisboa reunião",
        "明天9点到10点开会",
        "明天给安娜打电话9点",
        "给安娜打电话下下周一",
        "圣诞节晚上八点给安娜打电话",
        "给安娜打电话明年一月五号九点",
        "tomorrow at 9 20 pushups",
        "через час 20 отжиманий",
        "às 7 pm ligar para Ana",
        "el viernes de la otra semana a las 9 cena",
        "morgen Mittag um halb eins Anna anrufen",
        "Anna anrufen an Silvester um Mitternacht",
        "Anna anrufen am ersten Werktag des Monats um 9",
        "завтра в девятом часу позвонить",
        "завтра о дев'ятій подзвонити",
    ],
)
def test_what_may_mean_something_else_is_refused(line: str):
    for language in ("en", *LANGUAGES):
        with pytest.raises(UnclearTime):
            parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS, language)


@st.composite
def two_times(draw: st.DrawFn) -> tuple[str, str, str]:
    """A language, and two times in it."""
    language = draw(st.sampled_from(LANGUAGES))
    times = st.sampled_from([words for its_language, words, _ in PHRASES if its_language == language])
    return language, draw(times), draw(times)


@given(two_times())
def test_a_second_time_is_not_left_in_the_text(times: tuple[str, str, str]):
    language, first, second = times
    for line in (f"{first} Anna {second}", f"Anna {first} {second}"):
        try:
            _, text = parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS, language)
        except UnclearTime:
            continue
        assert text == "Anna"


@given(st.text(max_size=40), st.sampled_from(LANGUAGES))
def test_no_text_breaks_a_phrasebook(text: str, language: str):
    phrasebook = load_phrasebook(language)
    phrasebook.in_english(text)
    phrasebook.separate(phrasebook.strip_request(text))
    phrasebook.strip_lead_in(text)


@pytest.mark.parametrize(
    ("language", "line", "meaning"),
    [
        ("pt", "5/2 às 8 carro", "Fri 02-05 08:00"),
        ("es", "el 5/2/2027 a las 8 coche", "Fri 02-05 08:00"),
        ("pt", "todo dia às 8 remédio até 24/12", "Tue 11-24 08:00 FREQ=DAILY;UNTIL=20261224T235959"),
        (
            "fr",
            "tous les jours à 8 h médicament jusqu'au 5/12",
            "Tue 11-24 08:00 FREQ=DAILY;UNTIL=20261205T235959",
        ),
    ],
)
def test_a_date_in_strokes_begins_with_the_day_and_an_end_may_stand_last(
    language: str, line: str, meaning: str
):
    assert describe(parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS, language)[0]) == meaning


def test_a_date_in_strokes_is_not_read_by_who_speaks_another_language():
    with pytest.raises(UnclearTime, match="could mean two days"):
        parse_line("5/2 at 8 car", ZONE, NOW, MIN_INTERVAL_SECONDS, "en")
