"""The command menus of the bot: kept by scope and language, and found as a client finds the one to show."""

import re
from typing import Any

from bot.sim.telegram.chats import Chat
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

_COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MAX_COMMANDS = 100
_SCOPES_OF_ALL = frozenset(
    ("default", "all_private_chats", "all_group_chats", "all_chat_administrators"),
)
_SCOPES_OF_CHATS = frozenset(("chat", "chat_administrators", "chat_member"))


def set_my_commands(world: World, params: Params) -> bool:
    commands = _read_commands(params)
    scope = _read_scope(world, params)
    world.commands.pop(scope, None)  # so that the newest menu stands last
    if commands:
        world.commands[scope] = commands
    _notify(world, scope[0])
    return True


def delete_my_commands(world: World, params: Params) -> bool:
    scope = _read_scope(world, params)
    world.commands.pop(scope, None)
    _notify(world, scope[0])
    return True


def find_menu(world: World, chat: Chat, user: Json) -> list[Json]:
    """The menu that a user sees in a chat: of the narrowest scope, in their language if there is one."""
    language = user.get("language_code", "")
    for scope in _list_scopes(chat, user):
        for code in (language, ""):
            menu = world.commands.get((scope, code))
            if menu:
                return menu
    return []


def _notify(world: World, scope: str) -> None:
    """Tell the chats that a scope is about."""
    _, _, named = scope.partition(" ")
    chat_ids = [int(named.split()[0])] if named else list(world.chats)
    for chat_id in chat_ids:
        world.changes.notify(ChatEvent("commands", chat_id))
    world.changes.notify()


def _list_scopes(chat: Chat, user: Json) -> list[str]:
    """The scopes that apply to a user in a chat, the narrowest first."""
    if not isinstance(chat, GroupChat):
        return [f"chat {chat.id}", "all_private_chats", "default"]
    scopes = [f"chat_member {chat.id} {user['id']}"]
    is_admin = chat.find_member(user).is_admin
    scopes += [f"chat_administrators {chat.id}"] if is_admin else []
    scopes += [f"chat {chat.id}"]
    scopes += ["all_chat_administrators"] if is_admin else []
    return [*scopes, "all_group_chats", "default"]


def _read_scope(world: World, params: Params) -> tuple[str, str]:
    """The key of a menu: its scope with chat and user, and the language."""
    try:
        scope = params.json("scope") or {"type": "default"}
    except ValueError:
        raise bad_request("can't parse BotCommandScope JSON object") from None
    if not isinstance(scope, dict):
        raise bad_request("can't parse BotCommandScope: object expected as bot command scope")
    kind = scope.get("type")
    language = params.text("language_code")
    if kind in _SCOPES_OF_ALL:
        return str(kind), language
    if kind not in _SCOPES_OF_CHATS:
        raise bad_request("can't parse BotCommandScope: Unsupported type specified")
    chat = world.find_chat(Params({"chat_id": scope.get("chat_id")}))
    if kind != "chat" and not isinstance(chat, GroupChat):
        raise bad_request("can't use specified scope in private chats")
    if kind == "chat_member":
        return f"{kind} {chat.id} {scope.get('user_id')}", language
    return f"{kind} {chat.id}", language


def _read_commands(params: Params) -> list[Json]:
    commands = _read_list(params, "commands")
    if len(commands) > _MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        name = str(command.get("command", "")) if isinstance(command, dict) else ""
        if not _COMMAND_NAME.fullmatch(name.removeprefix("/")):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    return commands


def _read_list(params: Params, name: str) -> list[Any]:
    try:
        value = params.json(name) or []
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None
    if not isinstance(value, list):
        raise bad_request(f"expected an Array of {name}")
    return value
