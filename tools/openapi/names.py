"""Names in the house's form for what an API calls otherwise. Pure."""

import re

LONGEST = 64
_ODD = re.compile(r"[^a-z0-9]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def tool_name(written: str) -> str:
    """`listPets` and `GET /pets/{id}` as names of tools: `list_pets`, `get_pets_id`; empty if nothing is
    left.
    """
    name = _ODD.sub("_", _HUMPS.sub("_", written).lower()).strip("_")
    if name[:1].isdigit():
        name = f"do_{name}"
    return name[:LONGEST].rstrip("_")


def argument_names(wanted: list[tuple[str, str]]) -> list[str]:
    """For values (name, place) the names of the arguments: plain words, each once, with the place where two
    are alike.
    """
    plain = [_plain(name, place) for name, place in wanted]
    names: list[str] = []
    for name, (_, place) in zip(plain, wanted, strict=True):
        chosen = name if plain.count(name) == 1 else f"{name}_{place}"
        number = 2
        while chosen in names:
            chosen = f"{name}_{place}_{number}"
            number = number + 1
        names.append(chosen)
    return names


def _plain(name: str, place: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if _PLAIN.fullmatch(word):
        return word
    return f"{place}_{word}".rstrip("_")
