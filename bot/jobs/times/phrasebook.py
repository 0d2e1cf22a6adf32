"""Says words for a time of further languages in English, which the grammar reads. Pure.

A table of each language is in `phrases/`. A line of it has the English on the left of ` = `, and on the right
what people say, as regular expressions between ` | `; a name in braces is filled from the section of that
name, or is a number, and `{same}` is that number again. Every word of a phrase must be in the table: it is
not said in English otherwise.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

LANGUAGES = ("es", "fr", "pt", "ru", "zh")
"""The languages that there is a table of; the grammar itself reads English and German."""

MAX_PHRASE_CHARS = 120  # of words for a time
_MAX_LAST_CHARS = 40  # of a time behind a text without blanks
_UNSPACED = frozenset({"zh"})
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NUMBERS = {
    "number": r"\d{1,4}",
    "day": r"\d{1,2}",
    "minute": r"\d\d",
    "year": r"\d{4}",
    "date": r"\d{1,2}[./-]\d{1,2}(?:[./-](?:\d{4}|\d{2}))?",
}
_AS_WRITTEN = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}\.\d{1,2}(?:\.(?:\d{4}|\d{2})?)?(?!\d)|\d{1,2}/\d{1,2}(?:/\d{2,4})?|"
    r"\d{1,2}:\d{2}|\d{1,4}"
)
_GAP = re.compile(r"[\s,;]*")
_COMMA = re.compile(r"[,;]")
_WIDE = str.maketrans("：，．／－", ":,./-")


@dataclass(frozen=True, slots=True)
class Phrase:
    """What people say, and the English with the places of what it names."""

    pattern: re.Pattern[str]
    english: str


@dataclass(frozen=True, slots=True)
class Phrasebook:
    """The phrases of one language.

    `sections`: English by what people say, such as the days by their names. `is_spaced`: blanks stand between
    words. `remind_me`: what a line may begin with, `lead_in`: what its text may begin with then.
    """

    phrases: tuple[Phrase, ...]
    sections: dict[str, dict[str, str]]
    is_spaced: bool
    remind_me: re.Pattern[str]
    lead_in: re.Pattern[str]

    def in_english(self, text: str) -> str | None:
        """Say words for a time in English; None if one of them is not known, or they are too long for one."""
        if len(text) > MAX_PHRASE_CHARS:
            return None
        folded = _fold(text)
        english, end = self._read(folded, 0)
        return english if end == len(folded) else None

    def find_number(self, word: str) -> str | None:
        """The digits of a number of this language in letters; None if it is none."""
        numbers = self.sections["minute"] | self.sections["number"]
        return numbers.get(_fold(word))

    def start_in_english(self, text: str) -> str:
        """Say in English what is known at the beginning of a text."""
        english, _ = self._read(_fold(text[:MAX_PHRASE_CHARS]), 0)
        return english

    def strip_request(self, line: str) -> str:
        """A line without the `remind me` that it may begin with."""
        match = self.remind_me.match(_fold(line))
        return line[match.end() :] if match is not None else line

    def strip_lead_in(self, text: str) -> str:
        """The text of a reminder without the `to` or `that` that it may begin with."""
        match = self.lead_in.match(_fold(text))
        return text[match.end() :] if match is not None else text

    def separate(self, line: str) -> str:
        """Put a blank between the time and the text of a line that is written without any."""
        if self.is_spaced or len(_fold(line)) != len(line):
            return line
        folded = _fold(line)
        _, end = self._read(folded[:MAX_PHRASE_CHARS], 0)
        if end and end < len(line):
            return f"{line[:end]} {line[end:]}"
        begins = range(max(1, len(line) - _MAX_LAST_CHARS), len(line))
        begin = next((at for at in begins if self._read(folded, at)[1] == len(line)), 0)
        return f"{line[:begin]} {line[begin:]}".strip()

    def _read(self, text: str, begin: int) -> tuple[str, int]:
        """The English for the known words from there on, and where they end."""
        words = list[str]()
        end = at = begin
        while at < len(text):
            gap = _GAP.match(text, at)
            assert gap is not None
            at = gap.end()
            if words and _COMMA.search(gap[0]):
                words.append(",")
            english, next_at = self._read_phrase(text, at)
            if next_at == at:
                break
            words.append(english)
            at = end = next_at
        return " ".join(" ".join(words).replace(" ,", ",").split()), _skip_end(text, end)

    def _read_phrase(self, text: str, at: int) -> tuple[str, int]:
        """The longest phrase that begins there, in English, and where it ends."""
        best = "", at
        for phrase in self.phrases:
            match = phrase.pattern.match(text, at)
            if match is not None and match.end() > best[1]:
                best = self._fill(phrase.english, match), match.end()
        as_written = _AS_WRITTEN.match(text, at)
        if as_written is not None and as_written.end() > best[1] and self._ends_word(text, as_written.end()):
            return as_written[0], as_written.end()
        return best

    def _ends_word(self, text: str, end: int) -> bool:
        return not self.is_spaced or not re.match(r"\w", text[end : end + 1])

    def _fill(self, english: str, match: re.Match[str]) -> str:
        def find(name: re.Match[str]) -> str:
            said = match[name[1]]
            section = self.sections.get(name[1].rstrip("0123456789"), {})
            return section.get(said) or section.get(said.replace(" ", ""), said)

        return _PLACEHOLDER.sub(find, english)


def _skip_end(text: str, end: int) -> int:
    """Where a text ends, if nothing but a mark follows."""
    return len(text) if not text[end:].strip(" .,;!。，") else end


def _fold(text: str) -> str:
    """A text in small letters without accents, so that `mañana` and `manana` are the same."""
    plain = unicodedata.normalize("NFKD", text.translate(_WIDE).replace("’", "'").lower())
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


@cache
def load_phrasebook(language: str) -> Phrasebook:
    """The phrasebook of one of LANGUAGES."""
    is_spaced = language not in _UNSPACED
    sections: dict[str, dict[str, str]] = {}
    rows: dict[str, list[tuple[str, str]]] = {"phrases": [], "remind me": [], "lead in": []}
    for section, english, said in _read_table(language):
        if section in rows:
            rows[section].append((english, said))
        else:
            words = {word.strip(): english for word in said.split("|")}
            sections[section] = sections.get(section, {}) | words
    phrases = tuple(
        Phrase(_compile(said, sections, is_spaced=is_spaced), english)
        for english, alternatives in rows["phrases"]
        for said in alternatives.split(" | ")
    )
    [(_, remind_me)] = rows["remind me"]
    [(_, lead_in)] = rows["lead in"]
    return Phrasebook(phrases, sections, is_spaced, re.compile(remind_me), re.compile(lead_in))


def _read_table(language: str) -> Iterator[tuple[str, str, str]]:
    """Yield the section, the English and what people say, folded, of each line of a table."""
    section = ""
    for line in (files(__package__) / "phrases" / f"{language}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            english, _, said = line.partition("=")
            yield section, english.strip(), _fold(said).strip()


def _compile(said: str, sections: dict[str, dict[str, str]], *, is_spaced: bool) -> re.Pattern[str]:
    said = said.strip()
    if not is_spaced:  # but many put a blank between a number and a word
        said = _PLACEHOLDER.sub(r" ?{\1} ?", said).removeprefix(" ?").removesuffix(" ?")
    pattern = _PLACEHOLDER.sub(lambda name: _build_group(name[1], sections), said)
    if is_spaced:
        pattern = rf"(?<!\w)(?:{pattern})(?!\w)".replace(" ?", r"\s*").replace(" ", r"\s+")
    else:
        pattern = re.sub(r"(?<=\d)月", " ?月", pattern)
    return re.compile(pattern)


def _build_group(name: str, sections: dict[str, dict[str, str]]) -> str:
    """The group of a placeholder; a digit behind its name tells two of one kind apart."""
    if name == "same":
        return "(?P=number)"
    kind = name.rstrip("0123456789")
    choices = sorted(sections.get(kind, ()), key=len, reverse=True)
    if kind in _NUMBERS:
        choices = [_NUMBERS[kind], *choices]
    return f"(?P<{name}>{'|'.join(choices)})"
