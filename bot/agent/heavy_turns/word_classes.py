"""Classes of words that tell how much work a message asks for, in many languages.

Pure apart from reading `word_classes.txt` once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bot.agent.tool_matching.stems import split_words

_MIN_PREFIX_LETTERS = 2
_MAX_PREFIX_LETTERS = 12
_MAX_PHRASE_WORDS = 4
_MAX_UNSPACED_CHARS = 6  # characters of the longest entry in scripts without blanks
_ARABIC_PARTICLES = "وفبلك"  # written together with the word that follows


@dataclass(frozen=True, slots=True)
class WordClasses:
    """The classes of words, of beginnings of words, and of phrases by their words joined with blanks.

    `phrase_starts`: the first words of all phrases.
    """

    words: Mapping[str, tuple[str, ...]]
    prefixes: Mapping[str, tuple[str, ...]]
    phrases: Mapping[str, tuple[str, ...]]
    phrase_starts: frozenset[str]

    def classify(self, message_words: Sequence[str]) -> list[str]:
        """The classes of the words of a message, in their order."""
        return [name for names in self._match(message_words) for name in names]

    def _match(self, message_words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        position = 0
        while position < len(message_words):
            length = self._phrase_length(message_words, position)
            if length > 1:
                yield self.phrases[" ".join(message_words[position : position + length])]
            elif is_unspaced(message_words[position]):
                yield from self._match_unspaced(message_words[position])
            else:
                yield self._match_word(message_words[position])
            position += length

    def _phrase_length(self, message_words: Sequence[str], position: int) -> int:
        """Words of the longest phrase that begins here; 1 if none does."""
        if message_words[position] not in self.phrase_starts:
            return 1
        for length in range(_MAX_PHRASE_WORDS, 1, -1):
            if " ".join(message_words[position : position + length]) in self.phrases:
                return min(length, len(message_words) - position)
        return 1

    def _match_word(self, word: str) -> tuple[str, ...]:
        names = self._match_form(word)
        if not names and word[0] in _ARABIC_PARTICLES:
            return self._match_form(word[1:])
        return names

    def _match_form(self, word: str) -> tuple[str, ...]:
        if word in self.words:
            return self.words[word]
        for length in range(min(len(word), _MAX_PREFIX_LETTERS), _MIN_PREFIX_LETTERS - 1, -1):
            if word[:length] in self.prefixes:
                return self.prefixes[word[:length]]
        return ()

    def _match_unspaced(self, run: str) -> Iterator[tuple[str, ...]]:
        """The classes of the longest entries of a run without blanks, from left to right."""
        position = 0
        while position < len(run):
            for length in range(min(_MAX_UNSPACED_CHARS, len(run) - position), 0, -1):
                entry = run[position : position + length]
                names = self.words.get(entry) or self.prefixes.get(entry)
                if names:
                    yield names
                    position += length
                    break
            else:
                position += 1


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script that sets no blanks between words: Chinese, Japanese, Thai."""
    first = word[0]
    return "\u3040" <= first <= "\u30ff" or "\u3400" <= first <= "\u9fff" or "\u0e00" <= first <= "\u0e7f"


@cache
def load_word_classes() -> WordClasses:
    """The shipped classes."""
    path = files("bot.agent.heavy_turns").joinpath("word_classes.txt")
    return parse_word_classes(path.read_text(encoding="utf-8"))


def parse_word_classes(text: str) -> WordClasses:
    """Read classes, one a line: a name, a colon, words; `*` is any ending, `_` a blank, `#` a remark."""
    words: dict[str, list[str]] = defaultdict(list)
    prefixes: dict[str, list[str]] = defaultdict(list)
    phrases: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, entries = line.partition(":")
        for entry in entries.split():
            plain_words = split_words(entry.replace("_", " "))
            if len(plain_words) > 1:
                table = phrases
            elif entry.endswith("*"):
                table = prefixes
            else:
                table = words
            names = table[" ".join(plain_words)]
            if name not in names:
                names.append(name)
    phrase_starts = frozenset(phrase.partition(" ")[0] for phrase in phrases)
    return WordClasses(_freeze(words), _freeze(prefixes), _freeze(phrases), phrase_starts)


def _freeze(lists: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(values) for key, values in lists.items()}
