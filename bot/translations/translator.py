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
from unicodedata import bidirectional

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

    A text without translation stays English. Values replace the placeholders of the translated text; for
    people, those in a script from right to left are isolated.
    """

    __slots__ = ("_catalogue", "_is_for_people", "language")

    def __init__(
        self, language: str, catalogue: gettext.NullTranslations, *, is_for_people: bool = True
    ) -> None:
        self.language = language
        self._catalogue = catalogue
        self._is_for_people = is_for_people

    def __call__(self, text: str, /, **values: object) -> str:
        translated = self._catalogue.gettext(text)
        if values:
            return self._insert(translated, values)
        return translated

    def plural(self, singular: str, plural: str, count: int, /, **values: object) -> str:
        """Translate a text about `count` things, which is the value of its placeholder {count}."""
        return self._insert(self._catalogue.ngettext(singular, plural, count), {"count": count, **values})

    def _insert(self, text: str, values: Mapping[str, object]) -> str:
        if self._is_for_people:
            values = {name: isolate(str(value)) for name, value in values.items()}
        return text.format(**values)


def isolate(text: str) -> str:
    """Keep a name in a script from right to left, such as דנה, from turning around what stands beside it."""
    is_link = "://" in text
    if is_link or text.isascii() or not any(bidirectional(char) in {"R", "AL"} for char in text):
        return text
    return f"\u2068{text}\u2069"


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


ENGLISH = Translator("en", gettext.NullTranslations(), is_for_people=False)
"""English for the model, logs and the command line."""


@cache
def load_translator(language: str) -> Translator:
    """Return the translator into one of LANGUAGES, for people; its catalogue is read once.

    That of English has what people read in other words than what is stored, or what the model reads.
    """
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


def translatables(*texts: str) -> tuple[str, ...]:
    """Mark the texts of a table."""
    return texts
