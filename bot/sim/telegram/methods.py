"""The methods of the simulated Bot API by name, and those for commands, taps and files themselves."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from bot.sim.telegram import messages
from bot.sim.telegram.chats import MAX_TAP_SECONDS, World
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.params import Json, Params, bad_request

_COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MAX_COMMANDS = 100
_MAX_ANSWER_CHARACTERS = 200
_MAX_FETCHED_BYTES = 20 << 20  # of a file that a bot may fetch


def build_method_table() -> Mapping[str, Callable[[World, Params], object]]:
    """Methods by name in lower case, as Telegram ignores case; getUpdates waits and is not among them."""
    methods: dict[str, Callable[[World, Params], object]] = {
        "getMe": lambda world, _: world.bot,
        "setWebhook": set_webhook,
        "deleteWebhook": set_webhook,
        "getWebhookInfo": get_webhook_info,
        "setMyCommands": set_my_commands,
        "deleteMyCommands": set_my_commands,
        "getMyCommands": get_my_commands,
        "getChat": get_chat,
        "leaveChat": leave_chat,
        "getFile": get_file,
        "answerCallbackQuery": answer_callback_query,
        "sendMessage": messages.send_message,
        "sendPhoto": messages.send_photo,
        "sendMessageDraft": messages.send_message_draft,
        "sendChatAction": messages.send_chat_action,
        "editMessageText": messages.edit_message_text,
        "editMessageReplyMarkup": messages.edit_message_reply_markup,
        "deleteMessage": messages.delete_message,
        "setMessageReaction": messages.set_message_reaction,
    }
    return {name.lower(): method for name, method in methods.items()}


def set_webhook(world: World, params: Params) -> bool:
    url = params.text("url")
    if url and not url.startswith("https://"):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    if params.flag("drop_pending_updates"):
        world.updates.drop_all()
    world.updates.set_webhook(url)
    return True


def get_webhook_info(world: World, params: Params) -> Json:
    updates = world.updates
    if updates.allowed_kinds:
        allowed = {"allowed_updates": sorted(updates.allowed_kinds)}
    else:
        allowed = {}
    pending = len(updates.pending_ids)
    return {
        "url": updates.webhook_url,
        "has_custom_certificate": False,
        "pending_update_count": pending,
        **allowed,
    }


def set_my_commands(world: World, params: Params) -> bool:
    commands = _read_list(params, "commands")
    if len(commands) > _MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not isinstance(command, dict) or not _COMMAND_NAME.fullmatch(
            str(command.get("command", "")).removeprefix("/")
        ):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    world.commands[_command_scope(params)] = commands
    world.changes.notify()
    return True


def get_my_commands(world: World, params: Params) -> list[Json]:
    return world.commands.get(_command_scope(params), [])


def get_chat(world: World, params: Params) -> Json:
    chat = world.find_chat(params)
    gifts = dict.fromkeys(
        ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"),
        False,
    )
    return {**chat.raw, "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}


def leave_chat(world: World, params: Params) -> bool:
    chat = world.find_chat(params)
    if chat.is_private:
        raise bad_request("chat member status can't be changed in private chats")
    chat.is_blocked = True
    world.changes.notify()
    return True


def get_file(world: World, params: Params) -> Json:
    file_id = params.text("file_id")
    content = world.files.get(file_id)
    if content is None:
        raise bad_request("invalid file_id")
    if len(content) > _MAX_FETCHED_BYTES:
        raise bad_request("file is too big")
    return {
        "file_id": file_id,
        "file_unique_id": "u-" + file_id,
        "file_size": len(content),
        "file_path": "files/" + file_id,
    }


def answer_callback_query(world: World, params: Params) -> bool:
    tap = world.taps.get(params.text("callback_query_id"))
    if tap is None or world.clock.now() > tap.tapped_at + MAX_TAP_SECONDS:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    text = params.text("text")
    if len(text) > _MAX_ANSWER_CHARACTERS:
        raise bad_request("MESSAGE_TOO_LONG")
    tap.answer = {"text": text, "show_alert": params.flag("show_alert")}
    world.changes.notify(ChatEvent("answer", tap.chat_id, tap.message_id, tap.answer))
    return True


def _command_scope(params: Params) -> tuple[str, str]:
    return params.text("scope"), params.text("language_code")


def _read_list(params: Params, name: str) -> list[Any]:
    try:
        value = params.json(name) or []
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None
    if not isinstance(value, list):
        raise bad_request(f"expected an Array of {name}")
    return value
