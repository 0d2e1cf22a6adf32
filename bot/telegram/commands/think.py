"""/think: shows whether turns of this chat think, with a button for each way, and changes it for the turns to
come.
"""

from bot.db.conversations import chat_settings as chats
from bot.db.conversations.chat_settings import THINK_MODES, ThinkMode
from bot.domain import Button, Part
from bot.telegram.actions import BUTTON_EXPIRED, ActionContext, ActionResult, build_part, reply_text

HOW_TO = "Use /think auto, /think on or /think off; /think alone shows how it stands."
_MODE_LABELS: dict[ThinkMode, str] = {
    "auto": "when tools or several steps ask for it",
    "on": "before every answer, which takes longer",
    "off": "never",
}


async def handle_think(context: ActionContext) -> ActionResult:
    """/think, and the word that may follow it."""
    if not context.args:
        return ActionResult(
            parts=(_build_settings_part(context, await chats.load_think_mode(context.tx, context.lane)),)
        )
    wanted = _parse_mode(context.args.lower())
    if wanted is None:
        return reply_text(HOW_TO)
    await chats.set_think_mode(context.tx, context.lane, wanted)
    return reply_text(_format_changed(wanted))


async def handle_think_button(context: ActionContext) -> ActionResult:
    """A button of /think."""
    wanted = _parse_mode(context.args)
    if wanted is None:
        return BUTTON_EXPIRED
    await chats.set_think_mode(context.tx, context.lane, wanted)
    return ActionResult(toast=_format_changed(wanted), replacement=_build_settings_part(context, wanted))


def _parse_mode(word: str) -> ThinkMode | None:
    return next((one for one in THINK_MODES if one == word), None)


def _format_changed(mode: ThinkMode) -> str:
    return f"Thinking from your next message on: {_MODE_LABELS[mode]}."


def _build_settings_part(context: ActionContext, mode: ThinkMode | None) -> Part:
    house = context.deps.default_thinking
    if mode is None:
        now = f"{house}, as the house does"
    else:
        now = f"{mode} (the house: {house})"
    lines = [f"Thinking in this chat: {now}.", *(f"{way}: {what}" for way, what in _MODE_LABELS.items())]
    held = mode or house
    buttons = tuple(Button(f"✓ {way}" if way == held else way, f"think:{way}") for way in THINK_MODES)
    return build_part("\n".join(lines), buttons)
