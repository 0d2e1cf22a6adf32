"""Checks reply markup: inline keyboards button by button, other markup by its kind. Pure."""

from typing import Any

from bot.sim.telegram.links import LinkInvalid, check_link
from bot.sim.telegram.params import Json, Params, bad_request

MAX_CALLBACK_BYTES = 64
MAX_COPY_CHARACTERS = 256
MAX_BUTTONS = 100

_OTHER_MARKUP_KINDS = ("keyboard", "remove_keyboard", "force_reply")
_OTHER_BUTTON_ACTIONS = (
    "web_app", "login_url", "switch_inline_query", "switch_inline_query_current_chat",
    "switch_inline_query_chosen_chat", "callback_game", "pay",
)  # fmt: skip


def parse_inline_keyboard(params: Params, *, only_inline: bool = False) -> Json | None:
    """The inline keyboard of a call, None for none.

    Raises TelegramRefusal (400) for everything Telegram would not accept.
    """
    try:
        markup = params.json("reply_markup")
    except ValueError:
        raise bad_request("can't parse reply keyboard markup JSON object") from None
    if not markup:
        return None
    if not isinstance(markup, dict):
        raise bad_request("object expected as reply markup")
    if "inline_keyboard" in markup:
        return _check_rows(markup["inline_keyboard"])
    if only_inline or not any(name in markup for name in _OTHER_MARKUP_KINDS):
        raise bad_request("inline keyboard expected")
    return None


def _check_rows(rows: Any) -> Json | None:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise bad_request('field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays')
    keyboard = [[_check_button(button) for button in row] for row in rows if row]
    if sum(map(len, keyboard)) > MAX_BUTTONS:
        raise bad_request("reply markup is too long")
    if keyboard:
        return {"inline_keyboard": keyboard}
    return None


def _check_button(button: Any) -> Json:
    if not isinstance(button, dict):
        raise _unreadable_button("expected an Object")
    text = button.get("text")
    if not isinstance(text, str) or not text.strip():
        raise _unreadable_button('Field "text" must be a non-empty String')
    if "url" in button:
        return {**button, "url": _check_button_url(button["url"])}
    if "callback_data" in button:
        _check_callback_data(button["callback_data"])
    elif "copy_text" in button:
        _check_copy_text(button["copy_text"])
    elif not any(action in button for action in _OTHER_BUTTON_ACTIONS):
        raise _unreadable_button("Text buttons are unallowed in the inline keyboard")
    return dict(button)


def _check_callback_data(data: Any) -> None:
    if not isinstance(data, str) or not 0 < len(data.encode(errors="replace")) <= MAX_CALLBACK_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")


def _check_copy_text(copy: Any) -> None:
    text = copy.get("text") if isinstance(copy, dict) else None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_COPY_CHARACTERS:
        raise bad_request("BUTTON_COPY_TEXT_INVALID")


def _check_button_url(url: Any) -> str:
    try:
        return check_link(str(url))
    except LinkInvalid as reason:
        raise bad_request(f"inline keyboard button URL '{url}' is invalid: {reason}") from None


def _unreadable_button(reason: str) -> Exception:
    return bad_request(f"can't parse inline keyboard button: {reason}")
