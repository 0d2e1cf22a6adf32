"""Names in the house's form for what an API calls otherwise. Pure."""

import re

MAX_NAME_CHARS = 64
_NON_NAME_CHARS = re.compile(r"[^a-z0-9]+")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_tool_name(text: str) -> str:
    """`listPets` and `GET /pets/{id}` as names of tools: `list_pets`, `get_pets_id`; empty if nothing is
    left.
    """
    name = _NON_NAME_CHARS.sub("_", _CAMEL_CASE_BOUNDARY.sub("_", text).lower()).strip("_")
    if name[:1].isdigit():
        name = f"do_{name}"
    return name[:MAX_NAME_CHARS].rstrip("_")


def unique_argument_names(names_and_locations: list[tuple[str, str]]) -> list[str]:
    """For values (name, place) the names of the arguments: plain words, each once, with the place where two
    are alike.
    """
    plain = [_to_identifier(name, place) for name, place in names_and_locations]
    names: list[str] = []
    for name, (_, place) in zip(plain, names_and_locations, strict=True):
        chosen = name if plain.count(name) == 1 else f"{name}_{place}"
        number = 2
        while chosen in names:
            chosen = f"{name}_{place}_{number}"
            number = number + 1
        names.append(chosen)
    return names


def _to_identifier(name: str, location: str) -> str:
    if _IDENTIFIER.fullmatch(name):
        return name
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if _IDENTIFIER.fullmatch(word):
        return word
    return f"{location}_{word}".rstrip("_")
