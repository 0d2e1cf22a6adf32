"""Whether a short message continues the turn before it: `and tomorrow?` does, `thanks` does not. Pure."""

import re
from collections.abc import Sequence

from bot.agent.heavy_turns.word_classes import is_unspaced, load_word_classes
from bot.agent.tool_matching.stems import split_words

MAX_WORDS = 8  # of a message that continues another; a longer one says by itself what it asks for
MAX_UNSPACED_CHARS = 14

_START = re.compile(
    r"\s*(?:(?:and|also|what about|how about|or|same|again|now|then|next|ok and|the same|instead)\b|"
    r"(?:und|auch|oder|dasselbe|nochmal|jetzt|et|aussi|ou|pareil|y|e|o|ahora|tambi[eé]n|lo mismo|"
    r"anche|oppure|também|agora|en|ook|a|i|oraz|также|теперь|и|а|или|то же|та|і|ve|peki|ya|şimdi|aynısı|dan|"
    r"kalau)\b|"
    r"و|ماذا عن|طيب|और|और|那|再|还有|還有|也|换|じゃあ|では|同じ|あと|그럼|แล้ว)",
    re.IGNORECASE,
)
_QUESTION_END = re.compile(r"[?？؟]\s*$")
_TALK_CLASSES = frozenset({"chatter", "talk", "creative", "code", "self"})


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
    if _START.match(text):
        return True
    return len(message_words) > 1 and _QUESTION_END.search(text) is not None


def _is_long(message_words: Sequence[str]) -> bool:
    unspaced_chars = sum(len(word) for word in message_words if is_unspaced(word))
    return len(message_words) > MAX_WORDS or unspaced_chars > MAX_UNSPACED_CHARS
