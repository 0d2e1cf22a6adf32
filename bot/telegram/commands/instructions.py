"""/instructions: what a chat or a topic wants of every answer, shown, set and removed.

A conversation keeps what it began with, so a change offers to begin a new one.
"""

from bot.db.conversations import conversations, instructions
from bot.db.conversations.instructions import MAX_CHARACTERS, Instructions
from bot.domain import Button, Part
from bot.telegram.actions import (
    ActionContext,
    ActionResult,
    build_part,
    expire_button,
    reply_hint,
    reply_text,
)
from bot.translations.translator import translatable

REFUSAL = translatable("Only administrators of this group can change what I follow here.")


async def handle_instructions(context: ActionContext) -> ActionResult:
    """/instructions, and the text that may follow it."""
    translate = context.translate
    text = context.args
    if not text:
        return await _show(context)
    if not context.moderates:
        return reply_text(translate(REFUSAL))
    if len(text) > MAX_CHARACTERS:
        return reply_text(
            translate(
                "That has {count} characters, and I take {limit}. Please make it shorter.",
                count=len(text),
                limit=MAX_CHARACTERS,
            )
        )
    await instructions.put(context.tx, context.lane, text, person=context.person, now=context.now)
    if not await _waits_for_new_conversation(context, text):
        return reply_text(translate("From your next message on I follow this in every answer here."))
    question = translate("I follow this from /new on. Start a new conversation now?")
    return ActionResult(parts=(_offer_new_conversation(context, question),))


async def handle_remove_button(context: ActionContext) -> ActionResult:
    """The button below what is followed; it removes only the text that it was shown with."""
    translate = context.translate
    if not context.moderates:
        return ActionResult(toast=translate(REFUSAL))
    current = await instructions.find(context.tx, context.lane)
    if not current.text or current.is_inherited or context.args != _name_version(current):
        return expire_button(context)
    await instructions.remove(context.tx, context.lane)
    now_valid = await instructions.find(context.tx, context.lane)
    if not await _waits_for_new_conversation(context, now_valid.text):
        return ActionResult(
            toast=translate("Removed."), replacement=Part(translate("I no longer follow this."))
        )
    question = translate("I follow it until /new. Start a new conversation now?")
    return ActionResult(toast=translate("Removed."), replacement=_offer_new_conversation(context, question))


async def _show(context: ActionContext) -> ActionResult:
    translate = context.translate
    current = await instructions.find(context.tx, context.lane)
    if not current.text:
        return reply_hint(
            translate(
                "No instructions yet. Write, for example, `/instructions answer in two sentences`, and I "
                "follow that in every answer here."
            )
        )
    lines = [translate("I follow this in every answer here:"), current.text]
    if await _waits_for_new_conversation(context, current.text):
        lines.append(translate("It counts from /new on."))
    if current.is_inherited:
        lines.append(translate("That is the whole group's; this topic can have its own."))
    text = "\n\n".join(lines)
    if current.is_inherited or not context.moderates:
        return reply_text(text)
    return reply_text(text, (Button(translate("Remove"), f"instructions:{_name_version(current)}"),))


async def _waits_for_new_conversation(context: ActionContext, text: str) -> bool:
    """Whether the current conversation has begun with another text than this one."""
    conversation = await conversations.find(context.tx, context.lane)
    return conversation.instructions is not None and conversation.instructions != text


def _offer_new_conversation(context: ActionContext, question: str) -> Part:
    return build_part(question, (Button(context.translate("Start it"), "new:yes"),))


def _name_version(current: Instructions) -> str:
    """The moment at which a text was set, as its button carries it."""
    return f"{current.set_at:.3f}"
