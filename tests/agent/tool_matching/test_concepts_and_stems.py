"""Words, stems and concepts: what is comparable with what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.tool_matching import concepts, stems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("calculate_BMI", ["calculate", "bmi"]),
        ("getTopScorer", ["get", "top", "scorer"]),
        ("Où est l'été ?", ["ou", "est", "l", "ete"]),
        ("hatırlat 12:30", ["hatirlat", "12:30"]),
        ("मौसम 2.5", ["मौसम", "2.5"]),
        ("", []),
    ],
)
def test_names_are_split_and_accents_removed(text: str, expected: list[str]) -> None:
    assert stems.split_words(text) == expected


@pytest.mark.parametrize(
    "family",
    [
        ("calculate", "calculator", "calculation", "calculating"),
        ("convert", "converted", "converting", "converts"),
        ("city", "cities"),
        ("stop", "stopped"),
    ],
)
def test_relatives_share_a_stem(family: tuple[str, ...]) -> None:
    assert len({stems.stem(word) for word in family}) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("location", "local"),
        ("general", "generate"),
        ("station", "state", "statement"),
        ("international", "internal"),
        ("organization", "organ"),
        ("customer", "custom"),
        ("movie", "move"),
    ],
)
def test_words_that_mean_different_things_share_none(words: tuple[str, ...]) -> None:
    assert len({stems.stem(word) for word in words}) == len(words)
    assert [stems.stem(f"{word}s") for word in words] == [stems.stem(word) for word in words]


@pytest.mark.parametrize("word", ["gcd", "2024", "погода"])
def test_short_words_numbers_and_other_letters_stay(word: str) -> None:
    assert stems.stem(word) == word


def test_words_weigh_by_how_much_they_say() -> None:
    assert [stems.weigh_word(word) for word in ("the", "42", "calculate", "km", "umbrella")] == [
        0,
        0,
        0.35,
        0.5,
        1,
    ]


@given(st.text(max_size=80))
def test_any_text_has_words_with_stems(text: str) -> None:
    for word in stems.split_words(text):
        assert stems.stem(word)
        assert 0 <= stems.weigh_word(word) <= 1


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("What is the weather in Lisbon?", True),
        ("thanks!", True),
        ("Wie ist das Wetter in Hamburg?", False),
        ("Che tempo fa in Sicilia?", False),
        ("Погода", False),
        ("2 + 2", True),
    ],
)
def test_english_is_recognized_by_its_common_words(text: str, english: bool) -> None:
    assert concepts.is_english(stems.split_words(text)) is english


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Wettervorhersage", ["weather"]),
        ("明天会下雨吗", ["weather"]),
        ("الطقس", ["weather"]),
        ("xyz", []),
        ("kar", ["weather"]),
        ("karpuz", []),
    ],
)
def test_words_of_other_languages_get_english_names(text: str, names: list[str]) -> None:
    known_concepts = concepts.parse_concepts("# remark\nweather rain : wetter kar 下雨 طقس\n\n")
    assert concepts.find_english_names(stems.split_words(text), known_concepts) == names


def test_words_of_one_line_are_related() -> None:
    known_concepts = concepts.parse_concepts("movie film cinema :\nfilm photo : bild")
    assert known_concepts.related_stems["film"] == {"movie", "cinema", "photo"}
    assert "film" not in known_concepts.related_stems["film"]


def test_every_shipped_line_has_an_english_name() -> None:
    known_concepts = concepts.load_concepts()
    assert len(known_concepts.english_names) > 1000
    assert all(name.isascii() for name in known_concepts.english_names.values())
