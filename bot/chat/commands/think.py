"""/think: shows whether turns of this chat think, with a button for each mode, and changes it."""

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    build_hint,
    reply_hint,
    reply_text,
)
from bot.db.conversations import chat_settings
from bot.db.conversations.chat_settings import THINK_MODES, ThinkMode
from bot.domain import Button, Part
from bot.translations.translator import translatable

_MODE_LABELS: dict[ThinkMode, str] = {
    "auto": translatable("`auto`: for questions that need tools or several steps"),
    "on": translatable("`on`: before every answer, which takes longer"),
    "off": translatable("`off`: never"),
}
_CHANGES: dict[ThinkMode, str] = {
    "auto": translatable(
        "From your next message on, I'll think first when a question needs tools or several steps."
    ),
    "on": translatable("From your next message on, I'll think before every answer. That takes longer."),
    "off": translatable("From your next message on, I'll answer without thinking first."),
}
_MODE_NAMES: dict[ThinkMode, str] = {
    "auto": translatable("automatic"),
    "on": translatable("on"),
    "off": translatable("off"),
}


async def handle_think(context: ActionContext) -> ActionResult:
    """/think, and the mode that may follow it."""
    if not context.args:
        current = await chat_settings.load_think_mode(context.tx, context.lane)
        return ActionResult(parts=(_build_settings_part(context, current),))
    mode = _parse_mode(context.args.lower())
    if mode is None:
        return reply_hint(
            context.translate(
                "Write `/think auto`, `/think on` or `/think off`. /think shows the current setting."
            )
        )
    context.check_may_change_chat()
    await chat_settings.set_think_mode(context.tx, context.lane, mode)
    return reply_text(context.translate(_CHANGES[mode]))


async def handle_think_button(context: ActionContext) -> ActionResult:
    """A button of /think."""
    mode = _parse_mode(context.args)
    if mode is None:
        raise ButtonExpired
    context.check_may_change_chat()
    await chat_settings.set_think_mode(context.tx, context.lane, mode)
    return ActionResult(
        toast=context.translate(_CHANGES[mode]), replacement=_build_settings_part(context, mode)
    )


def _parse_mode(text: str) -> ThinkMode | None:
    return next((mode for mode in THINK_MODES if mode == text), None)


def _build_settings_part(context: ActionContext, chat_mode: ThinkMode | None) -> Part:
    default = context.deps.turns.default_thinking
    translate = context.translate
    default_name = translate(_MODE_NAMES[default])
    if chat_mode is None:
        state = translate("Thinking here: {mode} (the default).", mode=default_name)
    else:
        state = translate(
            "Thinking here: {mode} (the default: {default}).",
            mode=translate(_MODE_NAMES[chat_mode]),
            default=default_name,
        )
    lines = [state, *(translate(label) for label in _MODE_LABELS.values())]
    effective = chat_mode or default
    buttons = tuple(_build_button(mode, is_set=mode == effective) for mode in THINK_MODES)
    return build_hint("\n".join(lines), buttons)


def _build_button(mode: ThinkMode, *, is_set: bool) -> Button:
    label = f"✓ {mode}" if is_set else mode
    return Button(label, f"think:{mode}")
