"""Translates the gateway's own words into the language of the person who reads them.

A text stands in English where it is used, and is the key of its translations in the catalogues beside this
module. Logs, the command line and what the model reads stay English.
"""

import gettext
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

CATALOGUES = Path(__file__).parent
DOMAIN = "canvasgram"
LANGUAGES: Final[Mapping[str, str]] = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ru": "Русский",
    "zh": "中文",
}
"""The languages there are, each by its own name."""


class Translator:
    """Translates into one language: `translate("Hello {name}.", name="Anna")`.

    A text without translation stays English. Values replace the placeholders of the translated text.
    """

    __slots__ = ("_catalogue", "language")

    def __init__(self, language: str, catalogue: gettext.NullTranslations) -> None:
        self.language = language
        self._catalogue = catalogue

    def __call__(self, text: str, /, **values: object) -> str:
        translated = self._catalogue.gettext(text)
        if values:
            return translated.format(**values)
        return translated

    def plural(self, singular: str, plural: str, count: int, /, **values: object) -> str:
        """Translate a text about `count` things, which is the value of its placeholder {count}."""
        return self._catalogue.ngettext(singular, plural, count).format(count=count, **values)


ENGLISH = Translator("en", gettext.NullTranslations())


@cache
def load_translator(language: str) -> Translator:
    """Return the translator into one of LANGUAGES; its catalogue is read once."""
    if language == ENGLISH.language:
        return ENGLISH
    return Translator(language, gettext.translation(DOMAIN, CATALOGUES, [language]))


def match_language(code: str | None) -> str:
    """Return which of LANGUAGES suits a language code of Telegram, such as "de" or "zh-hans"."""
    language = (code or "").partition("-")[0].lower()
    if language in LANGUAGES:
        return language
    return ENGLISH.language


def translatable(text: str) -> str:
    """Mark a text for the catalogues where it stands in a table, and is translated later."""
    return text
