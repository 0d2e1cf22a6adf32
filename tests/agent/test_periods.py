"""Words of a time in the past narrow a search, in every language of the catalogues."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.periods import DaySpan, find_day_span

TODAY = date(2026, 11, 28)  # a Saturday
MAY = (date(2026, 5, 1), date(2026, 6, 1))
LAST_WEEK = (date(2026, 11, 16), date(2026, 11, 23))
YESTERDAY = (date(2026, 11, 27), date(2026, 11, 28))


@pytest.mark.parametrize(
    ("query", "span", "rest"),
    [
        ("the plumber I told you about in May", MAY, "the plumber I told you about"),
        ("plumber May 2025", (date(2025, 5, 1), date(2025, 6, 1)), "plumber"),
        ("Klempner im Mai", MAY, "Klempner"),
        ("fontanero en mayo", MAY, "fontanero"),
        ("plombier en mai", MAY, "plombier"),
        ("encanador em maio", MAY, "encanador"),
        ("сантехник в мае", MAY, "сантехник"),
        ("五月的水管工", MAY, "的水管工"),
        ("2025年5月 水管工", (date(2025, 5, 1), date(2025, 6, 1)), "水管工"),
        ("recipe of last week", LAST_WEEK, "recipe of"),
        ("letzte Woche Rezept", LAST_WEEK, "Rezept"),
        ("receta de la semana pasada", LAST_WEEK, "receta de"),
        ("recette la semaine dernière", LAST_WEEK, "recette"),
        ("receita na semana passada", LAST_WEEK, "receita"),
        ("рецепт на прошлой неделе", LAST_WEEK, "рецепт"),
        ("上周的菜谱", LAST_WEEK, "的菜谱"),
        ("what did we say yesterday", YESTERDAY, "what did we say"),
        ("вчера код", YESTERDAY, "код"),
        ("the day before yesterday code", (date(2026, 11, 26), date(2026, 11, 27)), "code"),
        ("in December the gift", (date(2025, 12, 1), date(2026, 1, 1)), "in the gift"),
        ("last month rent", (date(2026, 10, 1), date(2026, 11, 1)), "rent"),
        ("十一月 房租", (date(2026, 11, 1), date(2026, 12, 1)), "房租"),
        ("loyer de l’année dernière", (date(2025, 1, 1), date(2026, 1, 1)), "loyer de"),
    ],
)
def test_days_are_found_and_the_rest_is_searched(query: str, span: tuple[date, date], rest: str):
    assert find_day_span(query, TODAY) == DaySpan(*span, rest)


@pytest.mark.parametrize(
    "query", ["what may I eat", "the march of Anna", "Maja", "augusto", "mais", "the todays", ""]
)
def test_words_that_only_look_like_a_time_are_searched(query: str):
    assert find_day_span(query, TODAY) is None


@given(st.text(max_size=300), st.dates())
def test_any_text_gives_days_in_order_or_none(query: str, today: date):
    if span := find_day_span(query, min(max(today, date(2, 1, 1)), date(9998, 1, 1))):
        assert span.start < span.end
