"""Translates the gateway's own words into the language of the person who reads them.

A text stands in English where it is used, and is the key of its translations in the catalogues beside this
module. Logs, the command line and what the model reads stay English.
"""

import gettext
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    "pt": "Português",
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


Translatable = Callable[[Translator], str]
"""A text that is put into the language of its reader once that is known."""


@dataclass(frozen=True, slots=True)
class DeferredText:
    """A text with the values of its placeholders; a value that is Translatable is translated with it."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __call__(self, translate: Translator) -> str:
        values = {name: value(translate) if callable(value) else value for name, value in self.values.items()}
        return translate(self.text, **values) if self.text else ""

    def __str__(self) -> str:
        return self(ENGLISH)


def defer(text: str, /, **values: object) -> DeferredText:
    """Return a text that is translated for each of its readers: `defer("{name} is off.", name=name)`."""
    return DeferredText(text, values)


ENGLISH = Translator("en", gettext.NullTranslations())


@cache
def load_translator(language: str) -> Translator:
    """Return the translator into one of LANGUAGES; its catalogue is read once."""
    if language == ENGLISH.language:
        return ENGLISH
    return Translator(language, gettext.translation(DOMAIN, CATALOGUES, [language]))


def find_language(code: str | None) -> str | None:
    """Return which of LANGUAGES a language code of Telegram means, such as "de" or "zh-hans"; None: none."""
    language = (code or "").partition("-")[0].lower()
    return language if language in LANGUAGES else None


def match_language(code: str | None) -> str:
    """Return which of LANGUAGES suits a language code of Telegram best: English if none does."""
    return find_language(code) or ENGLISH.language


def translatable(text: str) -> str:
    """Mark a text for the catalogues where it stands in a table, and is translated later."""
    return text
