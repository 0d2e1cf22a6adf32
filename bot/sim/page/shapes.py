"""Messages, drafts and other events as JSON for the chat page: no more than it shows. Pure."""

from typing import Any

from bot.sim.telegram.events import ChatEvent

Json = dict[str, Any]

_SERVICE_FIELDS = frozenset({"new_chat_members", "left_chat_member", "new_chat_title", "pinned_message"})
_MAX_QUOTE_CHARACTERS = 120  # characters shown of a message that is replied to


def to_event_json(event: ChatEvent, person_id: int) -> Json:
    """The data of an event as the person sees it, by its kind."""
    data = event.data or {}
    match event.kind:
        case "message" | "edited":
            return to_message_json(data, person_id)
        case "draft":
            return {"draft": to_draft_json(data) if data else None}
        case "answer":
            return {"id": event.message_id, "text": data.get("text") or ""}
        case _:
            return {"id": event.message_id, **data}


def to_message_json(raw: Json, person_id: int, reactions: list[str] | None = None) -> Json:
    """One message as the person sees it; `reactions` are left out where an event does not carry them."""
    fields: Json = {
        "id": raw["message_id"],
        "mine": raw["from"]["id"] == person_id,
        "name": raw["from"]["first_name"],
        "date": raw["date"],
        "edited": "edit_date" in raw,
        "text": raw.get("text", raw.get("caption", "")),
        "entities": raw.get("entities") or raw.get("caption_entities") or [],
        "photo": raw["photo"][-1]["file_id"] if "photo" in raw else None,
        "voice": raw["voice"]["file_id"] if "voice" in raw else None,
        "file": raw["document"]["file_name"] if "document" in raw else None,
        "buttons": raw.get("reply_markup", {}).get("inline_keyboard", []),
        "reply": _to_quote_json(raw["reply_to_message"]) if "reply_to_message" in raw else None,
    }
    if reactions is None:
        return fields
    return fields | {"reactions": reactions}


def is_service_message(raw: Json) -> bool:
    """Whether Telegram wrote a message itself, about who came and the like; the page leaves it out."""
    return not _SERVICE_FIELDS.isdisjoint(raw)


def to_draft_json(data: Json) -> Json:
    """A draft, shown for `seconds`."""
    return {name: data[name] for name in ("text", "entities", "can_stop", "seconds")}


def _to_quote_json(raw: Json) -> Json:
    text = str(raw.get("text", raw.get("caption", "")))
    return {"id": raw["message_id"], "name": raw["from"]["first_name"], "text": text[:_MAX_QUOTE_CHARACTERS]}
