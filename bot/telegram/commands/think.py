"""/think: shows whether turns of this chat think, with a button for each mode, and changes it."""

from bot.db.conversations import chat_settings
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
    """/think, and the mode that may follow it."""
    if not context.args:
        current = await chat_settings.load_think_mode(context.tx, context.lane)
        return ActionResult(parts=(_build_settings_part(context, current),))
    mode = _parse_mode(context.args.lower())
    if mode is None:
        return reply_text(HOW_TO)
    await chat_settings.set_think_mode(context.tx, context.lane, mode)
    return reply_text(_format_changed(mode))


async def handle_think_button(context: ActionContext) -> ActionResult:
    """A button of /think."""
    mode = _parse_mode(context.args)
    if mode is None:
        return BUTTON_EXPIRED
    await chat_settings.set_think_mode(context.tx, context.lane, mode)
    return ActionResult(toast=_format_changed(mode), replacement=_build_settings_part(context, mode))


def _parse_mode(text: str) -> ThinkMode | None:
    return next((mode for mode in THINK_MODES if mode == text), None)


def _format_changed(mode: ThinkMode) -> str:
    return f"Thinking from your next message on: {_MODE_LABELS[mode]}."


def _build_settings_part(context: ActionContext, chat_mode: ThinkMode | None) -> Part:
    default = context.deps.default_thinking
    if chat_mode is None:
        state = f"{default}, the default"
    else:
        state = f"{chat_mode} (the default: {default})"
    lines = [f"Thinking in this chat: {state}."]
    lines += [f"{mode}: {label}" for mode, label in _MODE_LABELS.items()]
    effective = chat_mode or default
    buttons = tuple(_build_button(mode, is_set=mode == effective) for mode in THINK_MODES)
    return build_part("\n".join(lines), buttons)


def _build_button(mode: ThinkMode, *, is_set: bool) -> Button:
    label = f"✓ {mode}" if is_set else mode
    return Button(label, f"think:{mode}")
