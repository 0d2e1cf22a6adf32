"""Groups in tests: a directory that knows the bot, and raw group messages."""

from functools import partial
from typing import Any

from bot.chat.commands.registry import COMMANDS
from bot.chat.group_directory import GroupDirectory
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.incoming.envelope import read_envelope

BOT_ID = 42
BOT_USERNAME = "canvas_bot"


def build_directory() -> GroupDirectory:
    """Build a directory without groups."""
    return GroupDirectory(BOT_ID, BOT_USERNAME, [command.name for command in COMMANDS], ChatNumbers())


read_private_envelope = partial(read_envelope, groups=build_directory())
"""Reads an update as a gateway does that is in no group."""


def build_group_chat(chat: int, title: str) -> dict[str, Any]:
    return {"id": chat, "type": "supergroup", "title": title}


def build_membership(
    chat: dict[str, Any], status: str, by: dict[str, Any], old: str = "left", **rights: Any
) -> dict[str, Any]:
    """Build a raw update: somebody gives the bot this status in a chat."""
    bot = {"id": BOT_ID, "is_bot": True, "first_name": "Bot", "username": BOT_USERNAME}
    member = {"user": bot, "status": status, "until_date": 0, **rights}
    change = {"chat": chat, "from": by, "date": 1, "old_chat_member": {"user": bot, "status": old}}
    return {"my_chat_member": change | {"new_chat_member": member}}


def address(text: str, **message: Any) -> dict[str, Any]:
    """Build the fields of a message that mentions the bot, and then says this."""
    mention = {"type": "mention", "offset": 0, "length": len(BOT_USERNAME) + 1}
    return {"text": f"@{BOT_USERNAME} {text}", "entities": [mention], **message}
