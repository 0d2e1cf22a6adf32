"""How admins name things in a chat: tools in the few letters of a button, people and chats by name or number."""

import hashlib
import re

from bot.catalogue.cards import Card, cards
from bot.catalogue.permitting import ADMINS, EVERYONE, Holder
from bot.catalogue.registering import Act
from bot.catalogue.words import Name
from bot.db import people
from bot.errors import ChangeRefused
from bot.telegram.acts import Call

WHOM = "everyone, admins, @name, a number (people have none below zero, chats may), or chat for this one"
_NUMBER = re.compile(r"-?[1-9][0-9]{0,17}", re.ASCII)


def act_of(call: Call) -> Act:
    """What a person does in a chat, as an act on tools."""
    return Act(call.tx, call.by, call.now, call.reach.own)


def seal(name: str) -> str:
    """A name in few letters, for a button that may hold 64 bytes at most."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def sealed_tool(call: Call, sealed: str) -> Card | None:
    """The tool a button is about, if it is still there."""
    return next((one for one in await cards(call.tx, call.reach.own) if seal(one.name) == sealed), None)


async def named(call: Call) -> Name:
    """What people are called in lists: name and number."""
    known = {one.id: one.name for one in await people.everyone(call.tx)}
    return lambda number: f"{known.get(number, 'person')} ({number})"


async def whom(call: Call, words: str) -> Holder:
    """Whom a grant is meant for. Raises ChangeRefused when that is nobody, or several."""
    word, _, rest = words.strip().partition(" ")
    fixed = {"everyone": EVERYONE, "admins": ADMINS, "chat": Holder("chat", call.lane.chat)}.get(word.lower())
    if fixed is not None and not rest:
        return fixed
    number = rest.strip() if word.lower() == "chat" else words.strip()
    if _NUMBER.fullmatch(number):
        value = int(number)
        return Holder("chat" if word.lower() == "chat" or value < 0 else "person", value)
    if word.startswith("@"):
        return Holder("person", await _person(call, words.strip()[1:]))
    raise ChangeRefused(f"Whom? Say {WHOM}.")


async def _person(call: Call, name: str) -> int:
    found = [one for one in await people.everyone(call.tx) if one.name.casefold() == name.casefold()]
    if not found:
        raise ChangeRefused(f"Nobody who is in is called {name[:40]}. /people shows names and numbers.")
    if len(found) > 1:
        numbers = ", ".join(str(one.id) for one in found)
        raise ChangeRefused(f"Several people are called {name[:40]}: say which by number: {numbers}.")
    return found[0].id
