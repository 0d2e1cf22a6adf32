"""How often a job comes, in the words of each language."""

import pytest

from bot.jobs.times.formatting import format_recurrence
from bot.jobs.times.rrules import RecurrenceRule
from bot.translations.translator import load_translator

DAY = "FREQ=DAILY;BYHOUR=8;BYMINUTE=0"
WEEK = "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=8;BYMINUTE=0"
MONTH = "FREQ=MONTHLY;BYDAY=1WE;BYHOUR=8;BYMINUTE=0"
LAST = "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=8;BYMINUTE=0"


@pytest.mark.parametrize(
    ("language", "rule", "text"),
    [
        ("en", WEEK, "on Mondays and Wednesdays at 08:00"),
        ("en", MONTH, "every month on the first Wednesday at 08:00"),
        ("en", f"{WEEK};INTERVAL=2", "every 2 weeks on Monday and Wednesday at 08:00"),
        ("en", f"{LAST};INTERVAL=2", "every 2 months on the last Friday at 08:00"),
        ("de", WEEK, "jeden Montag und Mittwoch um 08:00"),
        ("de", MONTH, "jeden Monat am ersten Mittwoch um 08:00"),
        ("es", WEEK, "los lunes y los miércoles a las 08:00"),
        ("es", f"{LAST};INTERVAL=2", "cada 2 meses el último viernes a las 08:00"),
        ("fr", WEEK, "le lundi et le mercredi à 08:00"),
        ("fr", DAY, "chaque jour à 08:00"),
        ("pt", WEEK, "toda segunda e toda quarta às 08:00"),
        ("pt", MONTH, "todo mês na 1ª quarta-feira às 08:00"),
        ("pt", "FREQ=MONTHLY;BYDAY=3SA;BYHOUR=8;BYMINUTE=0", "todo mês no 3º sábado às 08:00"),
        ("pt", f"{LAST};INTERVAL=2", "a cada 2 meses, na última sexta-feira, às 08:00"),
        ("pt", f"{WEEK};INTERVAL=2", "a cada 2 semanas, às 08:00 de segunda-feira e quarta-feira"),
        ("ru", "FREQ=HOURLY", "каждый час"),
        ("ru", DAY, "каждый день в 08:00"),
        ("ru", WEEK, "по понедельникам и средам в 08:00"),
        ("ru", MONTH, "каждый месяц в 1-ю среду в 08:00"),
        ("ru", LAST, "каждый месяц в последнюю пятницу в 08:00"),
        ("ru", f"{DAY};INTERVAL=3", "раз в 3 дня, в 08:00"),
        ("ru", f"{DAY};INTERVAL=21", "раз в 21 день, в 08:00"),
        ("zh", DAY, "每天 08:00"),
        ("zh", WEEK, "每周一和周三 08:00"),
        ("zh", MONTH, "每月第一个周三 08:00"),
        ("zh", f"{DAY};INTERVAL=2", "每 2 天 08:00"),
    ],
)
def test_a_rule_reads_well_in_each_language(language: str, rule: str, text: str):
    parsed = RecurrenceRule.parse(f"DTSTART:20261120T080000\nRRULE:{rule}")
    assert format_recurrence(load_translator(language), parsed) == text
