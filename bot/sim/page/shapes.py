"""What the chat page is told about messages, drafts and other events: no more than it shows. Pure."""

from typing import Any

from bot.sim.telegram.events import Event

Json = dict[str, Any]

_QUOTED = 120  # characters shown of a message that is replied to


def event_shown(event: Event, person: int) -> Json:
    """The data of an event as `person` sees it, by its kind."""
    data = event.data or {}
    match event.kind:
        case "message" | "edited":
            return message_shown(data, person)
        case "draft":
            return {"draft": draft_shown(data) if data else None}
        case "answer":
            return {"id": event.message_id, "text": data.get("text") or ""}
        case _:
            return {"id": event.message_id, **data}


def message_shown(raw: Json, person: int, reactions: list[str] | None = None) -> Json:
    """One message as `person` sees it; `reactions` are left out where an event does not carry them."""
    shown: Json = {
        "id": raw["message_id"],
        "mine": raw["from"]["id"] == person,
        "date": raw["date"],
        "edited": "edit_date" in raw,
        "text": raw.get("text", raw.get("caption", "")),
        "entities": raw.get("entities") or raw.get("caption_entities") or [],
        "buttons": raw.get("reply_markup", {}).get("inline_keyboard", []),
        "reply": _quoted(raw["reply_to_message"]) if "reply_to_message" in raw else None,
    }
    if reactions is None:
        return shown
    return shown | {"reactions": reactions}


def draft_shown(data: Json) -> Json:
    """A message in the making, shown for `seconds`."""
    return {name: data[name] for name in ("text", "entities", "can_stop", "seconds")}


def _quoted(raw: Json) -> Json:
    text = str(raw.get("text", raw.get("caption", "")))
    return {"id": raw["message_id"], "name": raw["from"]["first_name"], "text": text[:_QUOTED]}
