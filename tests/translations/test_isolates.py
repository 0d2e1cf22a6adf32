"""A name in a script from right to left stays in its place among words and numbers of the other direction."""

import re

import pytest

from bot.translations.translator import ENGLISH, LANGUAGES, defer, isolate, load_translator
from tests.translations import catalogues

REQUEST = "{name} ({number}) asks to be let in, with the code {code}."
CANVASES = ("{name}: {count} canvas a day", "{name}: {count} canvases a day")
ASCII_VALUES = {"secret", "chat", "command", "limit", "minutes"}  # numbers and commands


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["דנה", "ليلى", "Dana דנה 2"])
def test_a_name_from_right_to_left_is_isolated_and_nothing_else_changes(language: str, name: str):
    translate = load_translator(language)
    for text, plain in (
        (
            translate(REQUEST, name=name, number=7, code="K3"),
            translate(REQUEST, name="{}", number=7, code="K3"),
        ),
        (translate.plural(*CANVASES, 2, name=name), translate.plural(*CANVASES, 2, name="{}")),
    ):
        assert text == plain.format(f"\u2068{name}\u2069")


@pytest.mark.parametrize("value", ["Anna", "Ада", "安娜", "Zoë 7", "https://example.org/שלום", 7, None])
def test_other_values_and_links_stay_as_they_are(value: object):
    assert load_translator("en")("{name}: no limit", name=value) == f"{value}: no limit"
    assert isolate(str(value)) == str(value)


def test_what_the_model_and_logs_read_has_no_isolates():
    assert ENGLISH("{name}: no limit", name="דנה") == "דנה: no limit"
    assert str(defer("{name}: no limit", name="דנה")) == "דנה: no limit"


def test_a_deferred_text_isolates_for_its_reader():
    text = defer("{name} got access from {admin}.", name="דנה", admin=defer("an admin"))
    assert text(load_translator("pt")) == "um admin liberou o acesso de \u2068דנה\u2069."


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_code_in_a_text_holds_no_value_that_could_be_isolated(language: str):
    for message in catalogues.iterate_messages(catalogues.read_catalogue(language)):
        for text in (*catalogues.get_texts(message), *catalogues.get_translations(message)):
            for code in re.findall(r"`([^`]*)`", text):
                assert set(re.findall(r"\{([a-z_]+)\}", code)) <= ASCII_VALUES, text
