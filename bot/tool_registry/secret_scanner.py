"""Sees keys, passwords and addresses with one: in what is written in a chat, and in the arguments of calls.
Pure.

Errs on the side of seeing one: whoever is wronged by that enters it on the machine.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "[hidden]"
"""What stands in the place of a secret, wherever it would be shown or kept."""

_MIN_WORD_CHARS = 20  # characters of a word that chance has made
_WINDOW_CHARS = 32  # characters that are looked at together: a key may stand among others
_MIN_CHANGE_RATE = 0.5  # names in camel case change less often between small letters, capitals and digits
_MIN_BITS_PER_CHAR = (
    3.2  # a character of such a word tells at least so much; words of a language and names tell less
)

_SECRET_WORDS = r"(?:api[_-]?)?key|token|secret|pass(?:word|wd|phrase)?|auth(?:orization)?|credentials?|signature|sig|bearer"  # noqa: S105
_SECRET_NAME_PATTERN = re.compile(rf"(?:^|[^a-z])(?:{_SECRET_WORDS})$|^x-api-key$", re.IGNORECASE)
_ASSIGNMENT_PATTERN = re.compile(
    rf"(?<![a-z])(?:{_SECRET_WORDS})[\"']?\s*[:=]\s*[\"']?(?!string\b|integer\b|number\b|boolean\b)[^\s\"'{{(,]",
    re.IGNORECASE,
)
_AUTHORIZATION_PATTERN = re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_KNOWN_KEY_PATTERN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|(?<![A-Za-z0-9])gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|(?<![A-Z0-9])A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|(?<![0-9])[0-9]{8,10}:[A-Za-z0-9_-]{30,}"
)
_URL_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s<>\"']+", re.IGNORECASE)
_WORD_PATTERN = re.compile(r"[A-Za-z0-9_+=.~-]+")


def has_likely_secret(text: str) -> bool:
    """Whether these words hold what looks like a secret, on its own or inside an address."""
    if (
        _KNOWN_KEY_PATTERN.search(text)
        or _ASSIGNMENT_PATTERN.search(text)
        or _AUTHORIZATION_PATTERN.search(text)
    ):
        return True
    addresses = _URL_PATTERN.findall(text)
    rest = _URL_PATTERN.sub(" ", text)
    return any(map(_has_secret_in_url, addresses)) or any(map(is_random_string, _WORD_PATTERN.findall(rest)))


def is_secret_name(name: str) -> bool:
    """Whether a header, a variable or an argument of this name holds a secret."""
    return bool(_SECRET_NAME_PATTERN.search(name))


def mask_secrets(arguments: str) -> str:
    """The JSON of a call's arguments with every secret in it hidden; no JSON is hidden whole if it holds one."""
    try:
        value = json.loads(arguments)
    except ValueError:
        if has_likely_secret(arguments):
            return HIDDEN
        return arguments
    return json.dumps(_mask_value(value), ensure_ascii=False)


def _mask_value(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _mask_value(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [_mask_value(one, name) for one in value]
    hides = isinstance(value, str) and (is_secret_name(name) or has_likely_secret(value))
    if hides and value:
        return HIDDEN
    return value


def _has_secret_in_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True  # nobody can tell, and it could not be used anyway
    if "@" in parts.netloc:
        return True
    return any(_is_secret_pair(*pair) for pair in _parse_pairs(parts.query, parts.fragment)) or any(
        is_random_string(word) for word in _WORD_PATTERN.findall(unquote(parts.path))
    )


def _parse_pairs(*texts: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        yield from parse_qsl(text)


def _is_secret_pair(name: str, value: str) -> bool:
    return bool(_SECRET_NAME_PATTERN.search(name)) or is_random_string(value)


def is_random_string(word: str) -> bool:
    """Whether a word looks as if chance had made it: long, and of letters and digits in no order of a
    language.
    """
    word = word.strip("=.~-_+")
    if len(word) < _MIN_WORD_CHARS or not re.search(r"[0-9]", word):
        return False
    if re.fullmatch(r"[0-9a-fA-F-]{20,}", word) and re.search(r"[a-fA-F]", word):
        return True
    if (
        max(
            _measure_entropy(word[at : at + _WINDOW_CHARS])
            for at in range(0, max(1, len(word) - _WINDOW_CHARS + 1), _WINDOW_CHARS // 4)
        )
        < _MIN_BITS_PER_CHAR
    ):
        return False
    return len(re.findall(r"[0-9]+", word)) >= 3 or _measure_change_rate(word) >= _MIN_CHANGE_RATE


def _measure_entropy(word: str) -> float:
    """What a character of a word tells, in bits, by how often each occurs in it."""
    return -sum(count / len(word) * math.log2(count / len(word)) for count in Counter(word).values())


def _measure_change_rate(word: str) -> float:
    """How often small letters, capitals, digits and signs follow one another, of the times that they could."""
    kinds = [
        "0" if sign.isdigit() else "A" if sign.isupper() else "a" if sign.islower() else "-" for sign in word
    ]
    return sum(one != other for one, other in pairwise(kinds)) / (len(word) - 1)
