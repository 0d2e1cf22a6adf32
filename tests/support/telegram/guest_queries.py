"""Guest mode: a bot is summoned in a chat it is no member of, answers once, and edits that answer.

The query must be answered within QUERY_SECONDS; how long it really is nobody has documented. Every other call
about such a chat is refused with PEER_ID_INVALID (see GroupChat.check_access).
"""

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.entities import MAX_TEXT_UNITS
from bot.sim.telegram.keyboards import parse_inline_keyboard
from bot.sim.telegram.messages import content_fields, read_formatted
from bot.sim.telegram.params import Json, Params, bad_request
from tests.support.telegram.world import GuestQuery, ScriptedWorld

QUERY_SECONDS = 15.0
_MAX_RESULT_ID_BYTES = 64


def ask(world: ScriptedWorld, chat: Chat, message: Json) -> GuestQuery:
    """Summon the bot by a message that mentions it, or replies to an answer it gave here."""
    query = GuestQuery(str(8_000_000_001 + len(world.guest_queries)), chat, message, world.clock.now())
    if not world.bot.get("supports_guest_queries"):
        return query
    world.guest_queries[query.query_id] = query
    chat.is_known = True
    query.update_id = world.updates.put("guest_message", message | {"guest_query_id": query.query_id})
    return query


def answer_guest_query(world: ScriptedWorld, params: Params) -> Json:
    query = world.guest_queries.get(params.text("guest_query_id"))
    result = _read_result(params)
    content = Params(result["input_message_content"])
    text = read_formatted(content, "message_text", "entities")
    if text.is_blank:
        raise bad_request("message text is empty")
    if text.units > MAX_TEXT_UNITS:
        raise bad_request("MESSAGE_TOO_LONG")
    keyboard = parse_inline_keyboard(Params(result), only_inline=True)
    if query is None or query.answer or world.clock.now() > query.asked_at + QUERY_SECONDS:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    raw = {
        "message_id": query.chat.next_message_id(),
        "from": world.bot,
        "chat": query.chat.raw,
        "date": world.unix_seconds(),
        "guest_bot_caller_user": query.message["from"],
        **content_fields("text", text),
    }
    if keyboard:
        raw["reply_markup"] = keyboard
    query.answer = ChatMessage(raw, from_bot=True, inline_message_id=f"guest-{query.query_id}")
    world.post(query.chat, query.answer)
    return {"inline_message_id": query.answer.inline_message_id}


def _read_result(params: Params) -> Json:
    """The article of a call; nothing else can be a guest's answer."""
    try:
        result = params.json("result")
    except ValueError:
        raise bad_request("can't parse inline query result JSON object") from None
    if not isinstance(result, dict):
        raise _unreadable("expected an Object")
    if result.get("type") != "article":
        raise bad_request("RESULT_TYPE_INVALID")
    result_id = result.get("id")
    if not isinstance(result_id, str) or not 1 <= len(result_id.encode()) <= _MAX_RESULT_ID_BYTES:
        raise bad_request("RESULT_ID_INVALID")
    if not str(result.get("title", "")).strip():
        raise bad_request("ARTICLE_TITLE_EMPTY")
    if not isinstance(result.get("input_message_content"), dict):
        raise _unreadable('Can\'t find field "input_message_content"')
    return result


def _unreadable(reason: str) -> Exception:
    return bad_request(f"can't parse InlineQueryResult: {reason}")
