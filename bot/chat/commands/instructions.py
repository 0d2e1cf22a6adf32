"""/instructions: what a chat or a topic wants of every answer, shown, set and removed.

A conversation keeps what it began with, so a change offers to begin a new one.
"""

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    build_part,
    expire_button,
    reply_hint,
    reply_text,
)
from bot.db.conversations import conversations, instructions
from bot.db.conversations.instructions import MAX_CHARACTERS, Instructions
from bot.domain import Button, Part
from bot.translations.formats import format_number
from bot.translations.translator import translatable

NONE_HERE = "none"
"""What the button carries by which a topic follows nothing."""

REFUSAL = translatable("Only administrators of this group can change my instructions here.")


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
                "That's {count} characters; the limit is {limit}. Please shorten it.",
                count=format_number(translate, len(text)),
                limit=format_number(translate, MAX_CHARACTERS),
            )
        )
    await instructions.put(context.tx, context.lane, text, person=context.person, now=context.now)
    if not await _waits_for_new_conversation(context, text):
        return reply_text(translate("From your next message on, I'll follow this in every answer here."))
    question = translate("I'll follow this after /new. Start a new conversation now?")
    return ActionResult(parts=(_offer_new_conversation(context, question),))


async def handle_button(context: ActionContext) -> ActionResult:
    """A button below what is followed, or below that nothing is."""
    if not context.moderates:
        return ActionResult(toast=context.translate(REFUSAL))
    if context.args == NONE_HERE:
        return await _follow_none(context)
    return await _remove(context)


async def _follow_none(context: ActionContext) -> ActionResult:
    """Have a topic follow nothing, where its group has instructions."""
    translate = context.translate
    current = await instructions.find(context.tx, context.lane)
    if not current.is_inherited:
        return expire_button(context)
    await instructions.put(context.tx, context.lane, "", person=context.person, now=context.now)
    if not await _waits_for_new_conversation(context, ""):
        return ActionResult(replacement=Part(translate("I no longer follow this.")))
    question = translate("I'll follow it until /new. Start a new conversation now?")
    return ActionResult(replacement=_offer_new_conversation(context, question))


async def _remove(context: ActionContext) -> ActionResult:
    """Remove the text that the button was shown with; a topic follows its group's again."""
    translate = context.translate
    current = await instructions.find(context.tx, context.lane)
    if current.is_inherited or not current.set_at or context.args != _name_version(current):
        return expire_button(context)
    await instructions.remove(context.tx, context.lane)
    now_valid = await instructions.find(context.tx, context.lane)
    if now_valid.text:
        return await _say_inherited(context, now_valid)
    if not await _waits_for_new_conversation(context, now_valid.text):
        return ActionResult(
            toast=translate("Removed."), replacement=Part(translate("I no longer follow this."))
        )
    question = translate("I'll follow it until /new. Start a new conversation now?")
    return ActionResult(toast=translate("Removed."), replacement=_offer_new_conversation(context, question))


async def _say_inherited(context: ActionContext, inherited: Instructions) -> ActionResult:
    translate = context.translate
    text = translate("This topic follows its group's instructions again.")
    if not await _waits_for_new_conversation(context, inherited.text):
        return ActionResult(replacement=Part(text))
    question = translate("I'll follow this after /new. Start a new conversation now?")
    return ActionResult(replacement=_offer_new_conversation(context, f"{text} {question}"))


async def _show(context: ActionContext) -> ActionResult:
    translate = context.translate
    current = await instructions.find(context.tx, context.lane)
    if current.set_at and not current.text:
        return _show_none(context, current)
    if not current.text:
        return reply_hint(
            translate(
                "No instructions yet. Write, for example, `/instructions answer in two sentences`, and "
                "I'll follow that in every answer here."
            )
        )
    lines = [translate("My instructions for every answer here:"), current.text]
    if await _waits_for_new_conversation(context, current.text):
        lines.append(translate("This applies after /new."))
    if current.is_inherited:
        lines.append(translate("These are the whole group's; this topic can have its own."))
    text = "\n\n".join(lines)
    if not context.moderates:
        return reply_text(text)
    button = Button(translate("Remove"), f"instructions:{_name_version(current)}")
    if current.is_inherited:
        button = Button(translate("None here"), f"instructions:{NONE_HERE}")
    return reply_text(text, (button,))


def _show_none(context: ActionContext, current: Instructions) -> ActionResult:
    """Say that a topic follows nothing, whatever its group does."""
    text = context.translate("I don't follow any instructions in this topic.")
    if not context.moderates:
        return reply_text(text)
    button = Button(context.translate("As in the group"), f"instructions:{_name_version(current)}")
    return reply_text(text, (button,))


async def _waits_for_new_conversation(context: ActionContext, text: str) -> bool:
    """Whether the current conversation has begun with another text than this one."""
    conversation = await conversations.find(context.tx, context.lane)
    return conversation.instructions is not None and conversation.instructions != text


def _offer_new_conversation(context: ActionContext, question: str) -> Part:
    return build_part(question, (Button(context.translate("Start it"), "new:yes"),))


def _name_version(current: Instructions) -> str:
    """The moment at which a text was set, as its button carries it."""
    return f"{current.set_at:.3f}"
