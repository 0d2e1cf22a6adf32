"""Texts use the words of the glossary on the page of style, and none that it rules out."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from bot.translations.translator import LANGUAGES
from tests.translations import catalogues

STYLE_PAGE = catalogues.ROOT / "bot" / "docs" / "texts-style.md"
NOT_PROSE = re.compile(r"`[^`]*`|\{\w+\}|[/@]\w+( \w+)?|canvasgram \w+")
UNSPACED = {"zh"}


class Term(NamedTuple):
    """A word of the glossary in one language, and the variants that are not used; `*` is any ending."""

    word: str
    variants: tuple[str, ...]


def read_glossary() -> dict[str, list[Term]]:
    """Return the terms of each language."""
    _, _, table = STYLE_PAGE.read_text(encoding="utf-8").partition("## Glossary")
    head, _, *rows = (line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|"))
    return {
        language: [parse_term(cells[column]) for cells in rows]
        for column, language in enumerate(["en", *head[1:]])
    }


def parse_term(cell: str) -> Term:
    word, _, variants = cell.partition(" ≠ ")
    return Term(re.sub(r" \(.*\)", "", word), tuple(filter(None, variants.split(", "))))


def find_word(word: str, text: str, language: str) -> bool:
    """Whether a word of the glossary is in a text, outside code, commands and placeholders."""
    pattern = re.escape(word).replace(r"\*", r"\w*")
    if language not in UNSPACED:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return bool(re.search(pattern, NOT_PROSE.sub("", text), re.IGNORECASE))


def find_variants(texts: Iterable[str], language: str) -> list[tuple[str, str]]:
    """Return each text with a variant that is not used."""
    variants = [variant for term in GLOSSARY[language] for variant in term.variants]
    return [(v, text) for text in texts for v in variants if find_word(v, text, language)]


def list_texts(language: str) -> list[str]:
    """Return all texts in a language."""
    if language == "en":
        messages = catalogues.iterate_messages(catalogues.extract_texts())
        return [text for message in messages for text in catalogues.get_texts(message)]
    messages = catalogues.iterate_messages(catalogues.read_catalogue(language))
    return [text for message in messages for text in catalogues.get_translations(message)]


GLOSSARY = read_glossary()


def test_the_glossary_is_in_the_languages_of_the_bot():
    assert set(GLOSSARY) <= set(LANGUAGES)
    assert len(GLOSSARY["en"]) >= 25


@pytest.mark.parametrize("language", GLOSSARY)
def test_texts_use_the_words_of_the_glossary(language: str):
    texts = list_texts(language)
    unused = [t.word for t in GLOSSARY[language] if not any(find_word(t.word, x, language) for x in texts)]
    assert unused == []
    assert find_variants(texts, language) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "↻ You changed your message."),
        ("en", "Ask an admin to let Bob in."),
        ("en", "Secrets are entered on the machine."),
        ("de", "Den Wortwechsel danach sehe ich dann nicht mehr."),
        ("de", "{name} wurde entsperrt."),
        ("es", "Nota borrada."),
        ("es", "un vídeo"),
        ("fr", "{count} canvases"),
        ("ru", "Вводите секреты на компьютере."),
        ("zh", "请在机器上输入密钥。"),
    ],
)
def test_a_variant_is_found(language: str, text: str):
    assert find_variants([text], language)


def test_code_and_commands_are_no_words_of_a_text():
    assert find_variants(["/tools add URL, `Tool`, {tool}, canvasgram tools", "Tool"], "de") == [
        ("Tool", "Tool")
    ]
