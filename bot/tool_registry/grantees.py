"""Reads whom a grant is meant for: everyone, admins, somebody by name or number, a chat."""

import re

from bot.db.engine import Transaction
from bot.db.people import people
from bot.errors import ChangeRefused
from bot.tool_registry.grant_actions import ADMINS, EVERYONE, Grantee

GRANTEE_HELP = "everyone, admins, @name or the number of a person, or chat and its number"
_NUMBER = re.compile(r"-?[1-9][0-9]{0,17}", re.ASCII)


async def resolve_grantee(tx: Transaction, text: str, current_chat: int | None = None) -> Grantee:
    """Whom is meant; `here` is the chat that `chat` alone means. Raises ChangeRefused when it is nobody, or
    several.
    """
    word, _, rest = " ".join(text.split()).partition(" ")
    word = word.lower() if not word.startswith("@") else word
    if word in {"everyone", "admins"} and not rest:
        if word == "everyone":
            return EVERYONE
        return ADMINS
    if word == "chat" and not rest and current_chat is not None:
        return Grantee("chat", current_chat)
    number = rest if word == "chat" else f"{word} {rest}".strip()
    if _NUMBER.fullmatch(number):
        value = int(number)
        return Grantee("chat" if word == "chat" or value < 0 else "person", value)
    if word.startswith("@"):
        return Grantee("person", await _find_person(tx, f"{word} {rest}".strip()[1:]))
    raise ChangeRefused(f"Whom? Say {GRANTEE_HELP}.")


async def _find_person(tx: Transaction, name: str) -> int:
    found = [one for one in await people.list_people(tx) if one.name.casefold() == name.casefold()]
    if not found:
        raise ChangeRefused(f"Nobody who is in is called {name[:40]}. /people shows names and numbers.")
    if len(found) > 1:
        numbers = ", ".join(str(one.id) for one in found)
        raise ChangeRefused(f"Several people are called {name[:40]}: say which by number: {numbers}.")
    return found[0].id
