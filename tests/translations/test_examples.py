"""Examples of times in a translation are in its language, and mean what the English ones say."""

import re
from collections.abc import Iterator
from datetime import datetime

import pytest

from bot.jobs.times import rrules
from bot.jobs.times.parser import parse_line
from bot.jobs.times.reader import ParsedSchedule, parse_when
from bot.jobs.times.zones import UnclearTime
from tests.translations import catalogues

ZONE = "Europe/Berlin"
NOW = rrules.to_timestamp(datetime(2026, 11, 23, 14, 0), rrules.load_zone(ZONE))
MIN_INTERVAL_SECONDS = 300
QUOTED = re.compile(r"`([^`]*)`")
AMERICAN = "every day at 8 am and 8 pm"  # of a rule for English words, which others cannot break


def read_example(example: str, language: str) -> ParsedSchedule | None:
    """The time in an example; None: it holds none."""
    words = example.replace("{minutes}", "30")
    try:
        if words.startswith("/remind "):
            line = words.removeprefix("/remind ")
            return parse_line(line, ZONE, NOW, MIN_INTERVAL_SECONDS, language)[0]
        return parse_when(words, ZONE, NOW, MIN_INTERVAL_SECONDS, language)
    except UnclearTime:
        return None


def list_examples(language: str) -> Iterator[tuple[str, str]]:
    """Yield each example of a time in English, and the one that stands in its place."""
    for message in catalogues.iterate_messages(catalogues.read_catalogue(language)):
        texts = catalogues.get_texts(message)
        for translation in catalogues.get_translations(message):
            for english, translated in zip(
                QUOTED.findall(texts[-1]), QUOTED.findall(translation), strict=True
            ):
                if english != AMERICAN and read_example(english, "en") is not None:
                    yield english, translated


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_an_example_of_a_time_is_read_in_its_language(language: str):
    examples = set(list_examples(language))
    assert len(examples) >= 20
    misread = [
        (english, translated)
        for english, translated in examples
        if read_example(translated, language) != read_example(english, "en")
    ]
    english_left = [english for english, translated in examples if english == translated and " " in english]
    assert misread == []
    assert english_left == []
