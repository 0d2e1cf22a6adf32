"""The methods of the simulated Bot API that the gateway calls; here those for webhooks, taps and files."""

from collections.abc import Callable, Mapping

from bot.sim.telegram import command_menus, group_methods, media_methods, messages, reactions
from bot.sim.telegram.chats import MAX_TAP_SECONDS
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

_MAX_ANSWER_CHARACTERS = 200
_MAX_FETCHED_BYTES = 20 << 20  # of a file that a bot may fetch


Method = Callable[[World, Params], object]


def build_method_table() -> Mapping[str, Method]:
    """Methods by name in lower case, as Telegram ignores case; getUpdates waits and is not among them."""
    methods: dict[str, Method] = {
        "getMe": lambda world, _: world.bot,
        "setWebhook": set_webhook,
        "deleteWebhook": set_webhook,
        "setMyCommands": command_menus.set_my_commands,
        "deleteMyCommands": command_menus.delete_my_commands,
        "getChatMember": group_methods.get_chat_member,
        "getChatAdministrators": group_methods.get_chat_administrators,
        "leaveChat": group_methods.leave_chat,
        "editForumTopic": group_methods.edit_forum_topic,
        "getFile": get_file,
        "answerCallbackQuery": answer_callback_query,
        "sendMessage": messages.send_message,
        "sendPhoto": media_methods.send_photo,
        "sendDocument": media_methods.send_document,
        "sendVoice": media_methods.send_voice,
        "sendMediaGroup": media_methods.send_media_group,
        "sendMessageDraft": messages.send_message_draft,
        "sendChatAction": messages.send_chat_action,
        "editMessageText": messages.edit_message_text,
        "editMessageReplyMarkup": messages.edit_message_reply_markup,
        "deleteMessage": messages.delete_message,
        "setMessageReaction": reactions.set_message_reaction,
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


def get_file(world: World, params: Params) -> Json:
    file_id = params.text("file_id")
    file = world.files.find(file_id)
    if file is None:
        raise bad_request("invalid file_id")
    if len(file.content) > _MAX_FETCHED_BYTES:
        raise bad_request("file is too big")
    return {
        "file_id": file_id,
        "file_unique_id": "u-" + file_id,
        "file_size": len(file.content),
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
