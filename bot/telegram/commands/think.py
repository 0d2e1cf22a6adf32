"""/think: shows whether turns of this chat think, with a button for each way, and changes it for the turns to
come.
"""

from bot.db.conversations import chat_settings as chats
from bot.db.conversations.chat_settings import THINK, Think
from bot.domain import Button, Part
from bot.telegram.actions import TOO_OLD, Answer, Call, part, say

HOW_TO = "Use /think auto, /think on or /think off; /think alone shows how it stands."
_WAYS: dict[Think, str] = {
    "auto": "when tools or several steps ask for it",
    "on": "before every answer, which takes longer",
    "off": "never",
}


async def think(call: Call) -> Answer:
    """/think, and the word that may follow it."""
    if not call.words:
        return Answer(parts=(_standing(call, await chats.think(call.tx, call.lane)),))
    wanted = _wanted(call.words.lower())
    if wanted is None:
        return say(HOW_TO)
    await chats.set_think(call.tx, call.lane, wanted)
    return say(_changed(wanted))


async def tapped(call: Call) -> Answer:
    """A button of /think."""
    wanted = _wanted(call.words)
    if wanted is None:
        return TOO_OLD
    await chats.set_think(call.tx, call.lane, wanted)
    return Answer(toast=_changed(wanted), redraw=_standing(call, wanted))


def _wanted(word: str) -> Think | None:
    return next((one for one in THINK if one == word), None)


def _changed(wanted: Think) -> str:
    return f"Thinking from your next message on: {_WAYS[wanted]}."


def _standing(call: Call, chosen: Think | None) -> Part:
    house = call.reach.thinking
    if chosen is None:
        now = f"{house}, as the house does"
    else:
        now = f"{chosen} (the house: {house})"
    lines = [f"Thinking in this chat: {now}.", *(f"{way}: {what}" for way, what in _WAYS.items())]
    held = chosen or house
    buttons = tuple(Button(f"✓ {way}" if way == held else way, f"think:{way}") for way in THINK)
    return part("\n".join(lines), buttons)
