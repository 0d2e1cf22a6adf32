"""The methods that send, edit and delete messages, checked as Telegram checks them."""

from collections.abc import Sequence

from bot.sim.telegram.chats import DRAFT_SECONDS, Chat, ChatDraft, ChatMessage
from bot.sim.telegram.entities import MAX_TEXT_UNITS, FormattedText, format_text
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.keyboards import parse_inline_keyboard
from bot.sim.telegram.params import Json, Params, TelegramRefusal, bad_request
from bot.sim.telegram.shapes import thread_fields
from bot.sim.telegram.world import World

_MAX_DELETABLE_SECONDS = 48 * 3600
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a "
    "current"
    " content and reply markup of the message"
)
_EDITABLE = ("text", "entities", "reply_markup")
_CHAT_ACTIONS = frozenset(
    (
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
    )
).union(("choose_sticker", "find_location", "record_video_note", "upload_video_note"))


def send_message(world: World, params: Params) -> Json:
    text = _read_text(params, "message is too long")
    content = content_fields("text", text) | _preview_fields(params)
    (message,) = send_new(world, params, "text messages", [content])
    return message


def edit_message_text(world: World, params: Params) -> Json | bool:
    text = _read_text(params, "MESSAGE_TOO_LONG")
    keyboard = parse_inline_keyboard(params, only_inline=True)
    chat, message = find_own_message(world, params)
    if "text" not in message.raw:
        raise bad_request("there is no text in the message to edit")
    raw = {
        name: value for name, value in message.raw.items() if name not in ("text", "entities", "reply_markup")
    }
    raw |= content_fields("text", text) | _preview_fields(params)
    if keyboard:
        raw["reply_markup"] = keyboard
    return apply_edit(world, chat, message, raw)


def edit_message_reply_markup(world: World, params: Params) -> Json | bool:
    keyboard = parse_inline_keyboard(params, only_inline=True)
    chat, message = find_own_message(world, params)
    raw = {name: value for name, value in message.raw.items() if name != "reply_markup"}
    if keyboard:
        raw["reply_markup"] = keyboard
    return apply_edit(world, chat, message, raw)


def delete_message(world: World, params: Params) -> bool:
    chat = world.find_chat(params)
    message = chat.find_message(params.integer("message_id"))
    if message is None:
        raise bad_request("message to delete not found")
    if not message.from_bot and isinstance(chat, GroupChat) and not chat.bot_member.is_admin:
        raise bad_request("message can't be deleted")
    if world.unix_seconds() - message.raw["date"] > _MAX_DELETABLE_SECONDS:
        raise bad_request("message can't be deleted for everyone")
    world.delete(chat, message)
    return True


def send_message_draft(world: World, params: Params) -> bool:
    chat = world.find_writable_chat(params)
    if not chat.is_private:
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    draft_id = params.integer("draft_id")
    if not draft_id:
        raise bad_request("draft_id must be non-zero")
    text = read_formatted(params, "text", "entities")
    if text.units > MAX_TEXT_UNITS:
        raise bad_request("MESSAGE_TOO_LONG")
    thread_id = params.integer("message_thread_id")
    chat.check_can_send("text messages", thread_id)
    refuse_flood(world.flood_gate.wait_for_draft(chat.id))
    until = world.clock.now() + DRAFT_SECONDS
    can_stop = params.flag("can_stop")
    keep = params.flag("keep_on_stop")
    draft = ChatDraft(draft_id, text.text, text.entities, can_stop, keep, thread_id, until)
    chat.show_draft(draft)
    world.changes.notify(ChatEvent("draft", chat.id, data=draft.to_data()))
    return True


def send_chat_action(world: World, params: Params) -> bool:
    chat = world.find_writable_chat(params)
    action = params.text("action")
    if action not in _CHAT_ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat.check_can_act(params.integer("message_thread_id"))
    chat.show_action(action)
    world.changes.notify(ChatEvent("typing", chat.id, data={"action": action}))
    return True


def read_formatted(params: Params, text_name: str, entities_name: str) -> FormattedText:
    mode = params.text("parse_mode").lower()
    if mode in ("markdown", "markdownv2", "html"):
        raise bad_request("parse_mode is not simulated; send entities")
    if mode not in ("", "none"):
        raise bad_request("unsupported parse_mode")
    try:
        sent = params.json(entities_name)
    except ValueError:
        sent = None  # as the real server: entities that are no JSON are no entities
    return format_text(params.text(text_name), sent)


def _read_text(params: Params, too_long_reason: str) -> FormattedText:
    if not params.text("text"):
        raise bad_request("message text is empty")
    text = read_formatted(params, "text", "entities")
    if text.is_blank:
        raise bad_request("text must be non-empty")
    if text.units > MAX_TEXT_UNITS:
        raise bad_request(too_long_reason)
    return text


def content_fields(name: str, text: FormattedText) -> Json:
    fields: Json = {}
    if text.text:
        fields[name] = text.text
    if text.entities:
        entities_name = "caption_entities" if name == "caption" else "entities"
        fields[entities_name] = list(text.entities)
    return fields


def _preview_fields(params: Params) -> Json:
    try:
        options = params.json("link_preview_options")
    except ValueError:
        raise bad_request("can't parse link preview options JSON object") from None
    if options is not None and not isinstance(options, dict):
        raise bad_request("object expected as link preview options")
    if options:
        return {"link_preview_options": options}
    return {}


def send_new(world: World, params: Params, kind: str, contents: Sequence[Json]) -> list[Json]:
    """Send one message of this kind, such as `photos`, for each of the contents."""
    chat = world.find_chat(params)
    keyboard = parse_inline_keyboard(params)
    thread_id = params.integer("message_thread_id")
    chat.check_can_send(kind, thread_id)
    reply = _reply_fields(chat, params)
    chat.check_writable()
    refuse_flood(world.flood_gate.wait_for_message(chat.id, len(contents)))
    around = thread_fields(chat, thread_id, reply) | reply | ({"reply_markup": keyboard} if keyboard else {})
    sent = []
    for content in contents:
        raw: Json = {
            "message_id": chat.next_message_id(),
            "from": world.bot,
            "chat": chat.raw,
            "date": world.unix_seconds(),
        }
        raw |= around | content
        world.post(chat, ChatMessage(raw, from_bot=True, silent=params.flag("disable_notification")))
        sent.append(raw)
    return sent


def _reply_fields(chat: Chat, params: Params) -> Json:
    try:
        reply = params.json("reply_parameters") or {}
    except ValueError:
        raise bad_request("can't parse reply parameters JSON object") from None
    if not isinstance(reply, dict):
        raise bad_request("object expected as reply parameters")
    message_id = reply.get("message_id") or params.integer("reply_to_message_id")
    if not message_id:
        return {}
    message = chat.find_message(message_id) if isinstance(message_id, int) else None
    if message is not None:
        original = {name: value for name, value in message.raw.items() if name != "reply_to_message"}
        fields: Json = {"reply_to_message": original}
        if reply.get("quote"):
            fields["quote"] = _quote_fields(reply)
        return fields
    if reply.get("allow_sending_without_reply") or params.flag("allow_sending_without_reply"):
        return {}
    raise bad_request("message to be replied not found")


def _quote_fields(reply: Json) -> Json:
    return {"text": reply["quote"], "position": reply.get("quote_position", 0), "is_manual": True}


def find_own_message(world: World, params: Params) -> tuple[Chat, ChatMessage]:
    """The message of the bot that a call edits, named by its chat and id or as the answer of a guest."""
    if inline_id := params.text("inline_message_id"):
        return world.find_inline_message(inline_id)
    chat = world.find_chat(params)
    if not params.integer("message_id"):
        raise bad_request("message identifier is not specified")
    message = chat.find_message(params.integer("message_id"))
    if message is None:
        raise bad_request("message to edit not found")
    if not message.from_bot:
        raise bad_request("message can't be edited")
    return world.find_writable_chat(params), message


def apply_edit(world: World, chat: Chat, message: ChatMessage, raw: Json) -> Json | bool:
    """Edit a message; returns it, or True for the answer of a guest."""
    refuse_flood(world.flood_gate.wait_for_message(chat.id))
    if all(raw.get(name) == message.raw.get(name) for name in _EDITABLE):
        raise bad_request(_NOT_MODIFIED)
    world.edit(chat, message, raw)
    return True if message.inline_message_id else message.raw


def refuse_flood(seconds: int) -> None:
    if seconds:
        raise TelegramRefusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
