"""Converts the names of an API to names of tools and arguments. Pure."""

import re
from collections.abc import Collection

MAX_NAME_CHARS = 64
_NON_NAME_CHARS = re.compile(r"[^a-z0-9]+")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# `DateSent<` and `DateSent>` are two arguments of Twilio's.
_COMPARISONS = ((">=", "_gte"), ("<=", "_lte"), (">", "_gt"), ("<", "_lt"))
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_tool_name(text: str) -> str:
    """`listPets` and `GET /pets/{id}` as names of tools: `list_pets`, `get_pets_id`.

    Empty when nothing is left.
    """
    name = _NON_NAME_CHARS.sub("_", _CAMEL_CASE_BOUNDARY.sub("_", text).lower()).strip("_")
    if name[:1].isdigit():
        name = f"do_{name}"
    return name[:MAX_NAME_CHARS].rstrip("_")


def add_prefix(prefix: str, text: str) -> str:
    """A text for `to_tool_name` that begins with the prefix, once: `git_status` of `git_` stays as it is."""
    if f"{to_tool_name(text)}_".startswith(prefix):
        return text
    return f"{prefix}{text}"


def choose_distinct_name(text: str, name: str, taken: Collection[str]) -> str:
    """The name, or where it is taken one that differs: with the end of a text that was cut, else numbered."""
    if name not in taken:
        return name
    whole = _NON_NAME_CHARS.sub("_", _CAMEL_CASE_BOUNDARY.sub("_", text).lower()).strip("_")
    if len(whole) > MAX_NAME_CHARS:
        name = f"{whole[: MAX_NAME_CHARS // 2]}{whole[-MAX_NAME_CHARS // 2 :]}"
    number = 2
    distinct = name
    while distinct in taken:
        distinct = f"{name[: MAX_NAME_CHARS - 5]}_{number}"
        number += 1
    return distinct


def unique_argument_names(names_and_locations: list[tuple[str, str]]) -> list[str]:
    """The argument names of these values (name, location): plain words, each once.

    Where two are alike the location is appended.
    """
    identifiers = [_to_identifier(name, location) for name, location in names_and_locations]
    names: list[str] = []
    for identifier, (_, location) in zip(identifiers, names_and_locations, strict=True):
        name = identifier
        if identifiers.count(identifier) > 1:
            name = f"{identifier}_{location}"
        number = 2
        while name in names:
            name = f"{identifier}_{location}_{number}"
            number += 1
        names.append(name)
    return names


def _to_identifier(name: str, location: str) -> str:
    if _IDENTIFIER.fullmatch(name):
        return name
    for sign, words in _COMPARISONS:
        name = name.replace(sign, words)
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if _IDENTIFIER.fullmatch(word):
        return word
    return f"{location}_{word}".rstrip("_")
