"""Fits texts about tools to a chat: long ones as messages, names as button data, people by name."""

import hashlib
from collections.abc import Sequence

from bot.chat.actions import MAX_PAGE_UNITS, ActionContext, ButtonExpired, ButtonRows, count_utf16_units
from bot.db.people import people
from bot.db.tools import sources
from bot.db.tools.sources import Source
from bot.domain import Part
from bot.tool_registry.admin_actions import AdminAction, begin_action
from bot.tool_registry.formatting import NameLookup
from bot.tool_registry.tool_info import load_tool_infos

_PIECE_CHARS = MAX_PAGE_UNITS // 2  # a character takes two units at most


def build_parts(lines: Sequence[str], buttons: ButtonRows = ()) -> tuple[Part, ...]:
    """Pack lines into as many messages as they need, the buttons under the last."""
    texts = []
    text = ""
    for line in lines:
        for piece in _cut_line(line):
            if text and count_utf16_units(f"{text}\n{piece}") > MAX_PAGE_UNITS:
                texts.append(text)
                text = piece
            else:
                text = f"{text}\n{piece}" if text else piece
    return (*map(Part, texts), Part(text, buttons=buttons))


def _cut_line(line: str) -> list[str]:
    if not line:
        return [""]
    return [line[start : start + _PIECE_CHARS] for start in range(0, len(line), _PIECE_CHARS)]


def truncate_text(text: str) -> str:
    """Cut a text so that it fits one message."""
    if count_utf16_units(text) <= MAX_PAGE_UNITS:
        return text
    return f"{text[:_PIECE_CHARS]}\n…"


def hash_name(name: str) -> str:
    """Shorten a name to a few letters for button data, which holds at most 64 bytes."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


async def find_tool_name(context: ActionContext, name_hash: str) -> str:
    """Return the name of the tool that a button is about. Raises ButtonExpired."""
    for tool in await load_tool_infos(context.tx, context.deps.tools.builtin):
        if hash_name(tool.name) == name_hash:
            return tool.name
    raise ButtonExpired


async def find_source(context: ActionContext, name_hash: str) -> Source:
    """Return the source that a button is about. Raises ButtonExpired."""
    for source in await sources.list_all(context.tx):
        if hash_name(source.name) == name_hash:
            return source
    raise ButtonExpired


async def load_person_names(context: ActionContext) -> NameLookup:
    """Return a function that names a person in lists: name and number."""
    names = await people.list_names(context.tx)
    return lambda number: f"{names.get(number, 'person')} ({number})"


async def begin_admin_action(context: ActionContext) -> AdminAction:
    """Begin what an admin does with tools in a chat."""
    return await begin_action(context.tx, context.actor, context.now, context.deps.tools.builtin)
