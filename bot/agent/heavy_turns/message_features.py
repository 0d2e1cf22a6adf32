"""What a message says of the work it asks for: its words, their classes, and its structure. Pure.

A short one may continue the turn before it: `and tomorrow?` does, `thanks` does not.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from bot.agent.heavy_turns.word_classes import is_unspaced, load_word_classes
from bot.agent.tool_matching.stems import fold_text, split_words, stem

HEAD_CHARS = 600  # of a message that is judged; what is asked stands at its beginning or at its end
TAIL_CHARS = 300
PREFIX_LETTERS = 5  # of a word that is not ASCII, in place of its stem
MAX_WORDS = 400  # that are looked at
MAX_CHARACTERS = 300  # of a message, of which runs are looked at
MAX_LENGTH = 16  # words from which a longer message is no sign of more work
LONG_LENGTH = 60  # words; much of it was pasted

# A longer message says by itself what it asks for, and continues no other.
MAX_CONTINUATION_WORDS = 8
MAX_CONTINUATION_CHARS = 14  # of words without blanks

ACTIONS = frozenset({"find", "send", "save", "remind", "act", "turn", "plan"})
_LINK = re.compile(r"https?://\S+|\bwww\.\S+", re.IGNORECASE)
_LIST_ITEM = re.compile(r"(?:^|\n)[^\S\n]{0,8}(?:\(?\d{1,2}[.)]|[-*•–])[^\S\n]")
_SENTENCE_END = re.compile(r"(?<=[^\W\d_])[.!…](?=\s|$)|[。！]")
_QUESTION = re.compile(r"[?？؟]")
_COMMA = re.compile(r"[,，、،;；؛]")
_NUMBER = re.compile(r"\d[\d.,:/]*")
_QUOTED = re.compile(r"[\"“„«»「『`]|(?<!\w)'(?=\w)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")
_INLINE_ITEM = re.compile(r"[(\s]\(?\d[.)]\s")

_CONTINUATION = re.compile(
    r"\s*(?:(?:and|also|what about|how about|or|same|again|now|then|next|ok and|the same|instead)\b|"
    r"(?:und|auch|oder|dasselbe|nochmal|jetzt|et|aussi|ou|pareil|y|e|o|ahora|tambi[eé]n|lo mismo|"
    r"anche|oppure|também|agora|en|ook|a|i|oraz|также|теперь|и|а|или|то же|та|і|ve|peki|ya|şimdi|aynısı|dan|"
    r"kalau)\b|"
    r"و|ماذا عن|طيب|और|और|那|再|还有|還有|也|换|じゃあ|では|同じ|あと|그럼|แล้ว)",
    re.IGNORECASE,
)
_QUESTION_END = re.compile(r"[?？؟]\s*$")
_TALK_CLASSES = frozenset({"chatter", "talk", "creative", "code", "self"})


@dataclass(frozen=True, slots=True)
class MessageText:
    """The part of a message that is judged, without its links."""

    plain: str
    link_count: int


def read_message(text: str) -> MessageText:
    """Take the links out of a message, and of a long one its middle."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    plain, link_count = _LINK.subn(" https:// ", text)
    return MessageText(plain, link_count)


def describe_message(message: MessageText) -> dict[str, float]:
    """The features of a message, by name."""
    message_words = split_words(message.plain)[:MAX_WORDS]
    classes = load_word_classes().classify(message_words)
    features = dict.fromkeys(_name_words(message_words), 1.0)
    features |= dict.fromkeys(_name_characters(message.plain), 1.0)
    features |= _describe_classes(classes)
    features |= _describe_structure(message, message_words)
    return features


def _name_words(message_words: Sequence[str]) -> Iterator[str]:
    """A feature for each word and each pair of neighbours; for each character and pair without blanks."""
    forms: list[str] = []
    for word in message_words:
        if is_unspaced(word):
            forms.extend(word)
        elif word[0].isdigit():
            forms.append("0")
        elif word.isascii():
            forms.append(stem(word))
        else:
            forms.append(word[:PREFIX_LETTERS])
    yield from (f"w {form}" for form in forms)
    yield from (f"w {first} {second}" for first, second in pairwise(forms))


def _name_characters(text: str) -> list[str]:
    """A feature for each run of three or four characters: words as they are bent or misspelt."""
    plain = fold_text(_NUMBER.sub("0", text[:MAX_CHARACTERS]))
    padded = f" {' '.join(plain.split())} "
    return [
        f"c {padded[start : start + length]}"
        for length in (3, 4)
        for start in range(len(padded) - length + 1)
    ]


def _describe_classes(classes: Sequence[str]) -> dict[str, float]:
    counts = Counter(classes)
    features = {f"some {name}": 1.0 for name in counts}
    features |= {f"many {name}": math.log(count) for name, count in counts.items() if count > 1}
    actions = sorted(counts.keys() & ACTIONS)
    features |= {f"both {first} {second}": 1.0 for first, second in combinations(actions, 2)}
    features["actions"] = len(actions) / 3
    features |= {f"at least {count} actions": 1.0 for count in (2, 3, 4) if len(actions) >= count}
    features |= {f"then {first} {second}": 1.0 for first, second in pairwise(classes)}
    features |= {
        f"then {first} {second} {third}": 1.0
        for first, second, third in zip(classes, classes[1:], classes[2:], strict=False)
        if second in ("join", "order")
    }
    if classes:
        features[f"first {classes[0]}"] = 1.0
    return features


def _describe_structure(message: MessageText, message_words: Sequence[str]) -> dict[str, float]:
    text = message.plain
    length = sum(_count_words(message_words))
    counts = {
        "links": message.link_count,
        "items": _count(_LIST_ITEM, text),
        "inline items": _count(_INLINE_ITEM, text),
        "lines": text.count("\n"),
        "sentences": _count(_SENTENCE_END, text),
        "questions": _count(_QUESTION, text),
        "commas": _count(_COMMA, text),
        "numbers": _count(_NUMBER, text),
        "quotes": _count(_QUOTED, text),
        "names": _count(_NAME, text),
    }
    features = {name: math.log1p(count) for name, count in counts.items() if count}
    features |= {f"two {name}": 1.0 for name, count in counts.items() if count > 1}
    features["length"] = math.log1p(min(length, MAX_LENGTH)) / 3
    features["short"] = float(length < 5)
    features["long"] = float(length > LONG_LENGTH)
    return features


def _count_words(message_words: Iterable[str]) -> Iterator[float]:
    """How many words each is: two characters of a script without blanks are about one."""
    for word in message_words:
        if is_unspaced(word):
            yield len(word) / 2
        else:
            yield 1.0


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def describe_previous(text: str, has_used_tools: bool, was_heavy: bool) -> dict[str, float]:
    """The features of a message that depend on the turn before it."""
    features = {}
    if has_used_tools:
        features["after tools"] = 1.0
    if was_heavy:
        features["after heavy work"] = 1.0
    if has_used_tools and is_continuation(text):
        features["continues"] = 1.0
        features["continues heavy work"] = float(was_heavy)
    return features


def is_continuation(text: str) -> bool:
    """Whether a message asks for more of what was done in the turn before."""
    text = text.strip()[:200]
    message_words = split_words(text)
    if not message_words or _is_long(message_words):
        return False
    if _TALK_CLASSES & set(load_word_classes().classify(message_words)):
        return False
    if _CONTINUATION.match(text):
        return True
    return len(message_words) > 1 and _QUESTION_END.search(text) is not None


def _is_long(message_words: Sequence[str]) -> bool:
    unspaced_chars = sum(len(word) for word in message_words if is_unspaced(word))
    return len(message_words) > MAX_CONTINUATION_WORDS or unspaced_chars > MAX_CONTINUATION_CHARS
