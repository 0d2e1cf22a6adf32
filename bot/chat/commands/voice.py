"""/voice: shows which answers of this chat are spoken, and changes it."""

from bot.chat.actions import ActionContext, ActionResult, reply_hint, reply_text
from bot.chat.unreachable_chats import VOICE_REFUSED
from bot.db.conversations import chat_settings
from bot.db.conversations.chat_settings import VoiceMode
from bot.errors import ChangeRefused
from bot.translations.translator import translatable

NO_SPEECH = translatable("I can't speak here: no voice is set up.")
_STATES: dict[VoiceMode, str] = {
    "auto": translatable("I also answer voice messages by voice. Long answers come only as text."),
    "on": translatable("I speak all my answers, in addition to the text. Long answers come only as text."),
    "off": translatable("I answer only with text."),
    "refused": VOICE_REFUSED,
}
_CHANGES: dict[str, VoiceMode] = {"auto": "auto", "on": "on", "off": "off"}


async def handle_voice(context: ActionContext) -> ActionResult:
    """/voice, and the mode that may follow it."""
    if not context.deps.turns.can_speak:
        raise ChangeRefused(NO_SPEECH)
    chat = context.lane.chat
    if not context.args:
        state = _STATES[await chat_settings.load_voice_mode(context.tx, chat)]
        hint = context.translate("Write `/voice on`, `/voice off` or `/voice auto` to change that.")
        return reply_hint(f"{context.translate(state)}\n{hint}")
    mode = _CHANGES.get(context.args.lower())
    if mode is None:
        return reply_hint(
            context.translate(
                "Write `/voice on`, `/voice off` or `/voice auto`. /voice shows the current setting."
            )
        )
    context.check_may_change_chat()
    await chat_settings.set_voice_mode(context.tx, chat, mode)
    return reply_text(context.translate(_STATES[mode]))
