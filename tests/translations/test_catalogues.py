"""All texts of the gateway are in the catalogues, and each translation fits its text."""

import ast
import re
import string
from collections import Counter
from collections.abc import Iterator
from gettext import c2py

import pytest
from babel.messages.catalog import Catalog, Message

from bot.translations.translator import LANGUAGES, load_translator, match_language
from tests.translations import catalogues

LOOK_UPS = {"translate", "translatable", "plural", "defer", *catalogues.REFUSALS}
KEPT_IN_NAMES = {"reasons"}  # arguments of a refusal that are no values of its text


@pytest.fixture(scope="module")
def template() -> Catalog:
    """The texts in the code."""
    return catalogues.extract_texts()


@pytest.fixture(scope="module")
def texts(template: Catalog) -> set[tuple[str, ...]]:
    return {catalogues.get_texts(message) for message in catalogues.iterate_messages(template)}


def find_placeholders(text: str) -> set[str]:
    if not re.search(r"\{\w+", text):
        return set()
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def find_commands(text: str) -> set[str]:
    """The commands and settings a text names, which are the same in every language."""
    return set(re.findall(r"(?<![\w/])/[a-z]+\b(?!/)|\b[A-Z]+_[A-Z_]+\b", text))


def list_translations(language: str) -> Iterator[Message]:
    return catalogues.iterate_messages(catalogues.read_catalogue(language))


def test_the_page_lists_all_texts(template: Catalog):
    assert catalogues.PAGE.read_text(encoding="utf-8") == catalogues.format_page(template), (
        "run `python -m tests.translations`"
    )


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_a_catalogue_has_the_texts_of_the_code_and_no_others(language: str, texts: set[tuple[str, ...]]):
    texts_of_catalogue = {catalogues.get_texts(message) for message in list_translations(language)}
    assert texts_of_catalogue == texts, "run `python -m tests.translations`"


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_every_text_is_translated(language: str):
    missing = [
        message.id for message in list_translations(language) if not all(catalogues.get_translations(message))
    ]
    assert missing == []


def test_english_has_other_words_only_for_texts_of_the_code(texts: set[tuple[str, ...]]):
    for message in list_translations("en"):
        assert catalogues.get_texts(message) in texts, "run `python -m tests.translations`"
        assert catalogues.get_translations(message) != catalogues.get_texts(message)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_compiled(language: str):
    compiled = catalogues.find_file(language, ".mo").read_bytes()
    assert compiled == catalogues.format_mo(catalogues.read_catalogue(language)), (
        "run `python -m tests.translations`"
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_placeholders_commands_and_code_of_its_text(language: str):
    for message in list_translations(language):
        texts = catalogues.get_texts(message)
        for translation in filter(None, catalogues.get_translations(message)):
            assert find_placeholders(translation) <= find_placeholders(texts[-1]), translation
            assert find_placeholders(texts[0]) - {"count"} <= find_placeholders(translation), translation
            assert find_commands(translation) == find_commands(texts[-1]), translation
            assert translation.count("`") == texts[-1].count("`"), translation
            assert translation.strip() == translation or texts[-1].strip() != texts[-1], translation


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_each_plural_form_is_there_and_says_the_number_if_it_is_for_several(language: str):
    catalogue = catalogues.read_catalogue(language)
    numbers_by_form = Counter(map(c2py(catalogue.plural_expr), range(1, 200)))
    for message in catalogues.iterate_messages(catalogue):
        if not message.pluralizable:
            continue
        forms = catalogues.get_translations(message)
        assert len(forms) == catalogue.num_plurals, message.id
        for number, form in enumerate(forms):
            says_count = "{count}" in form or "{count}" not in message.id[1]
            assert says_count or numbers_by_form[number] == 1, form


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, ast.Call]]:
    """Every call of the gateway that looks up or marks a text, with its place."""
    return list(iterate_calls())


def iterate_calls() -> Iterator[tuple[str, ast.Call]]:
    for path in catalogues.list_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name.lstrip("_") in LOOK_UPS:
                yield f"{path.name}:{node.lineno}", node


def test_a_text_that_is_looked_up_is_in_the_catalogues(
    texts: set[tuple[str, ...]], calls: list[tuple[str, ast.Call]]
):
    known = {text for forms in texts for text in forms}
    for place, call in calls:
        if call.args and isinstance(call.args[0], ast.Constant):
            assert call.args[0].value in known, place
        if getattr(call.func, "attr", "") == "plural":  # a look-up among its arguments would make it singular
            assert tuple(map(ast.literal_eval, call.args[:2])) in texts, place


def test_values_come_into_a_text_by_its_placeholders(calls: list[tuple[str, ast.Call]]):
    """A text that was formatted before it is looked up is in no catalogue."""
    for place, call in calls:
        for argument in call.args:
            assert not isinstance(argument, ast.JoinedStr | ast.BinOp), place


def test_each_placeholder_of_a_text_gets_its_value(calls: list[tuple[str, ast.Call]]):
    for place, call in calls:
        if not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        values = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        texts = [value for value in values if isinstance(value, str)]
        names = {keyword.arg for keyword in call.keywords} - {"count"}
        placeholders = set[str]().union(*map(find_placeholders, texts)) - {"count"}
        is_marked = getattr(call.func, "id", "") == "translatable"
        if is_marked or None in names:
            continue
        assert placeholders <= names, place
        assert names - placeholders <= KEPT_IN_NAMES, place


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("de-AT", "de"),
        ("zh-hans", "zh"),
        ("pt", "pt"),
        ("pt-br", "pt"),
        ("pt-PT", "pt"),
        ("EN", "en"),
        ("it", "en"),
        ("", "en"),
        (None, "en"),
    ],
)
def test_a_language_code_of_telegram_finds_the_language_that_suits(code: str | None, language: str):
    assert match_language(code) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_without_translation_stays_english(language: str):
    translate = load_translator(language)
    assert translate("A text that {name} made up.", name="Anna") == "A text that Anna made up."
    assert translate.plural("{count} thing", "{count} things", 1).endswith("1 thing")


@pytest.mark.parametrize("language", catalogues.TRANSLATED)
def test_no_translation_is_a_guess_or_stands_twice(language: str):
    for message in list_translations(language):
        assert not message.fuzzy
        for translation in catalogues.get_translations(message):
            middle = len(translation) // 2
            assert len(translation) < 2 or translation[:middle] != translation[middle:]


def test_french_marks_stay_on_the_line_of_their_word():
    for message in list_translations("fr"):
        for translation in catalogues.get_translations(message):
            prose = re.sub(r"`[^`]*`", "", translation)
            assert re.findall(r" [;:!?»%]|« ", prose) == []
