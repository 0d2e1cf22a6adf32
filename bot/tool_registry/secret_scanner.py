"""Detects keys, passwords and addresses with one, in chat messages and in the arguments of calls.

Errs on the side of detecting one: somebody whose text is refused by mistake enters it on the machine. Pure.
"""

import json
import math
import re
from collections import Counter
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "[hidden]"
"""Replaces a secret wherever it would be shown or stored."""

_MIN_WORD_CHARS = 20  # of a random word
_WINDOW_CHARS = 32  # measured together: a key may stand among other characters
_MIN_CHANGE_RATE = 0.5  # names in camel case change less often between small letters, capitals and digits
_MIN_BITS_PER_CHAR = 3.2  # the least entropy of a random word; words of a language and names have less

_SECRET_WORDS = (
    r"(?:api[_-]?)?key|token|secret|pass(?:word|wd|phrase)?|auth(?:orization)?|"  # noqa: S105
    r"credentials?|signature|sig|bearer"
)
_SECRET_NAME_PATTERN = re.compile(rf"(?:^|[^a-z])(?:{_SECRET_WORDS})$|^x-api-key$", re.IGNORECASE)
_ASSIGNMENT_PATTERN = re.compile(
    rf"(?<![a-z])(?:{_SECRET_WORDS})[\"']?\s*[:=]\s*[\"']?"
    r"(?!string\b|integer\b|number\b|boolean\b|(?:bearer|basic|token)\s*\{)[^\s\"'{(,]",
    re.IGNORECASE,
)
_AUTHORIZATION_PATTERN = re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_KNOWN_KEY_PATTERN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|(?<![A-Za-z0-9])gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|(?<![A-Z0-9])A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|hf_[A-Za-z0-9]{20,}|(?<![\w-])(?>[\w-]*?eyJ)[\w-]{8,}+\.[\w-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|(?<![0-9])[0-9]{8,10}:[A-Za-z0-9_-]{30,}"
)
_URL_PATTERN = re.compile(r"[a-z][a-z0-9+.-]{0,30}+://[^\s<>\"']+", re.IGNORECASE)
_WORD_PATTERN = re.compile(r"[A-Za-z0-9_+=.~-]+")


def has_likely_secret(text: str) -> bool:
    """Tell whether a text holds what looks like a secret, on its own or inside an address."""
    if has_known_key(text) or _ASSIGNMENT_PATTERN.search(text):
        return True
    addresses = _URL_PATTERN.findall(text)
    rest = _URL_PATTERN.sub(" ", text)
    return any(map(_has_secret_in_url, addresses)) or any(map(is_random_string, _WORD_PATTERN.findall(rest)))


def has_known_key(text: str) -> bool:
    """Tell whether a text holds a key of a well-known form, or an Authorization header."""
    return bool(_KNOWN_KEY_PATTERN.search(text) or _AUTHORIZATION_PATTERN.search(text))


def is_secret_name(name: str) -> bool:
    """Tell whether a header, a variable or an argument of this name holds a secret."""
    return bool(_SECRET_NAME_PATTERN.search(name))


def mask_secrets(arguments: str) -> str:
    """Hide every secret in the JSON of a call's arguments; other text is hidden whole if it holds one."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        if has_likely_secret(arguments):
            return HIDDEN
        return arguments
    return json.dumps(_mask_value(value), ensure_ascii=False)


def mask_words(text: str) -> str:
    """Hide every word of a text that holds a secret; its line breaks become spaces."""
    return " ".join(HIDDEN if has_likely_secret(word) else word for word in text.split())


def _mask_value(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _mask_value(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_value(item, name) for item in value]
    if isinstance(value, str) and value and (is_secret_name(name) or has_likely_secret(value)):
        return HIDDEN
    return value


def _has_secret_in_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True  # it cannot be known, and the address could not be used anyway
    if "@" in parts.netloc:
        return True
    pairs = [*parse_qsl(parts.query), *parse_qsl(parts.fragment)]
    if any(is_secret_name(name) or is_random_string(value) for name, value in pairs):
        return True
    return any(map(is_random_string, _WORD_PATTERN.findall(unquote(parts.path))))


def is_random_string(word: str) -> bool:
    """Tell whether a word looks random: long, and of letters and digits in no order of a language."""
    word = word.strip("=.~-_+")
    if len(word) < _MIN_WORD_CHARS or not re.search(r"[0-9]", word):
        return False
    if re.fullmatch(r"[0-9a-fA-F-]{20,}", word) and re.search(r"[a-fA-F]", word):
        return True
    starts = range(0, max(1, len(word) - _WINDOW_CHARS + 1), _WINDOW_CHARS // 4)
    if max(_measure_entropy(word[start : start + _WINDOW_CHARS]) for start in starts) < _MIN_BITS_PER_CHAR:
        return False
    return len(re.findall(r"[0-9]+", word)) >= 3 or _measure_change_rate(word) >= _MIN_CHANGE_RATE


def _measure_entropy(word: str) -> float:
    """The entropy of a word in bits a character, by how often each character occurs in it."""
    return -sum(count / len(word) * math.log2(count / len(word)) for count in Counter(word).values())


def _measure_change_rate(word: str) -> float:
    """The share of neighbours that are of different kinds: small letters, capitals, digits, signs."""
    kinds = [(char.isdigit(), char.isupper(), char.islower()) for char in word]
    return sum(kind != next_kind for kind, next_kind in pairwise(kinds)) / (len(word) - 1)
