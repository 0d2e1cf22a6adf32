"""/instructions: what a chat or a topic wants of every answer, shown, set and removed.

A conversation keeps what it began with, so a change offers to begin a new one. Personas are instructions that
admins have named, for any chat to use.
"""

import re
from dataclasses import replace
from difflib import get_close_matches

from bot.chat.actions import (
    ActionContext,
    ActionResult,
    ButtonExpired,
    build_hint,
    build_part,
    build_rows,
    check_length,
    reply_text,
)
from bot.db.conversations import conversations, instructions
from bot.db.conversations.instructions import MAX_CHARACTERS, MAX_PERSONAS, Instructions, Persona
from bot.domain import Button, Part
from bot.errors import ChangeRefused
from bot.translations.formats import format_list
from bot.translations.translator import translatable

NONE_HERE = "none"
"""What the button carries by which a topic follows nothing."""

USE = "use:"
"""With what the button of a persona begins; its number follows."""

AFTER_NEW = translatable("I'll follow this after /new. Start a new conversation now?")
BUTTONS_PER_ROW = 3
_SAVE = re.compile(r"save\s+(\w[\w-]{0,31})\s+(.+)", re.IGNORECASE | re.DOTALL)
_NAMED = re.compile(r"(use|delete)\s+(\S{1,64})", re.IGNORECASE)


async def handle_instructions(context: ActionContext) -> ActionResult:
    """/instructions, and the text that may follow it."""
    translate = context.translate
    text = context.args
    if not text:
        return await _show(context)
    if (answer := await _handle_persona_words(context)) is not None:
        return answer
    _check_right(context)
    check_length(text, MAX_CHARACTERS)
    await instructions.put(context.tx, context.lane, text, person=context.person, now=context.now)
    at_once = translate("From your next message on, I'll follow this in every answer here.")
    return ActionResult(parts=(await _say_when(context, text, at_once, translate(AFTER_NEW)),))


def _check_right(context: ActionContext) -> None:
    if not context.moderates:
        raise ChangeRefused("Only administrators of this group can change my instructions here.")


async def _handle_persona_words(context: ActionContext) -> ActionResult | None:
    """Use a persona; save or delete one, for admins in private. None: the words are instructions.

    Instructions may begin with such a word, too: a name decides that is there, or nearly.
    """
    keeps_them = context.role == "admin" and not context.is_group
    save = _SAVE.fullmatch(context.args)
    if save is not None and keeps_them:
        return await _save_persona(context, save[1], save[2].strip())
    named = _NAMED.fullmatch(context.args)
    if named is None:
        return None
    is_deletion = named[1].lower() == "delete"
    if is_deletion and not keeps_them:
        return None
    persona = await instructions.find_persona(context.tx, named[2])
    if persona is None:
        names = [persona.name for persona in await instructions.list_personas(context.tx)]
        if not names or not (is_deletion or get_close_matches(named[2], names)):
            return None
        raise ChangeRefused(
            "There is no persona called {name}. Choose from: {names}.",
            name=named[2],
            names=format_list(context.translate, names),
        )
    if is_deletion:
        return await _delete_persona(context, persona)
    _check_right(context)
    return ActionResult(parts=(await _use_persona(context, persona),))


async def _save_persona(context: ActionContext, name: str, text: str) -> ActionResult:
    """Name a text, or give a persona a new one."""
    translate = context.translate
    check_length(text, MAX_CHARACTERS)
    earlier = await instructions.find_persona(context.tx, name)
    names = [persona.name for persona in await instructions.list_personas(context.tx)]
    if earlier is None and len(names) >= MAX_PERSONAS:
        raise ChangeRefused(
            "There are already {count} personas, the most there can be. Delete one first, with "
            "/instructions delete NAME: {names}.",
            count=len(names),
            names=format_list(translate, names),
        )
    before = None
    if earlier is not None:
        name = earlier.name
        before = {"text": earlier.text}
    await instructions.put_persona(context.tx, name, text)
    await context.record_audit("saved", f"persona {name}", before, {"text": text})
    return reply_text(translate("Saved. /instructions offers {name} to everybody.", name=name))


async def _delete_persona(context: ActionContext, persona: Persona) -> ActionResult:
    await instructions.remove_persona(context.tx, persona.id)
    await context.record_audit("deleted", f"persona {persona.name}", {"text": persona.text}, None)
    return reply_text(
        context.translate(
            "I've deleted {name}. Chats that used it go on without it from their next conversation on.",
            name=persona.name,
        )
    )


async def _use_persona(context: ActionContext, persona: Persona) -> Part:
    await instructions.use_persona(
        context.tx, context.lane, persona.id, person=context.person, now=context.now
    )
    name = persona.name
    at_once = context.translate("I'll answer as {name} from your next message on.", name=name)
    after_new = context.translate(
        "I'll answer as {name} after /new. Start a new conversation now?", name=name
    )
    return await _say_when(context, persona.text, at_once, after_new)


async def handle_button(context: ActionContext) -> ActionResult:
    """A button below what is followed, or below that nothing is."""
    _check_right(context)
    if context.args == NONE_HERE:
        return await _follow_none(context)
    if context.args.startswith(USE):
        stored = await instructions.list_personas(context.tx)
        number = context.args.removeprefix(USE)
        persona = next((persona for persona in stored if str(persona.id) == number), None)
        if persona is None:
            raise ChangeRefused("This persona no longer exists.")
        return ActionResult(replacement=await _use_persona(context, persona))
    return await _remove(context)


async def _follow_none(context: ActionContext) -> ActionResult:
    """Have a topic follow nothing, where its chat has instructions."""
    current = await instructions.find(context.tx, context.lane)
    if not current.is_inherited:
        raise ButtonExpired
    await instructions.put(context.tx, context.lane, "", person=context.person, now=context.now)
    return ActionResult(replacement=await _say_ended(context))


async def _remove(context: ActionContext) -> ActionResult:
    """Remove what the button was shown with; a topic follows its chat's again, a chat its own."""
    current = await instructions.find(context.tx, context.lane)
    if current.is_inherited or not current.set_at or context.args != _name_version(current):
        raise ButtonExpired
    if current.persona is None:
        await instructions.remove(context.tx, context.lane)
    else:
        await instructions.leave_persona(context.tx, context.lane)
    now_valid = await instructions.find(context.tx, context.lane)
    if not now_valid.text:
        return ActionResult(toast=context.translate("Removed."), replacement=await _say_ended(context))
    text = context.translate("I follow your own instructions again.")
    if now_valid.is_inherited:
        text = context.translate("This topic follows the whole chat's instructions again.")
    after_new = f"{text} {context.translate(AFTER_NEW)}"
    return ActionResult(replacement=await _say_when(context, now_valid.text, text, after_new))


async def _say_ended(context: ActionContext) -> Part:
    at_once = context.translate("I no longer follow this.")
    after_new = context.translate("I'll follow it until /new. Start a new conversation now?")
    return await _say_when(context, "", at_once, after_new)


async def _say_when(context: ActionContext, text: str, at_once: str, after_new: str) -> Part:
    """Say that a text holds now, or from the next conversation on, which a button begins."""
    if await _waits_for_new_conversation(context, text):
        return build_part(after_new, (Button(context.translate("Start it"), "new:yes"),))
    return Part(at_once)


async def _show(context: ActionContext) -> ActionResult:
    """Show what is followed here; to who may change it also how to end that, and the personas."""
    current = await instructions.find(context.tx, context.lane)
    shown = _build_first_hint(context)
    rows = list[tuple[Button, ...]]()
    if current.set_at:
        text, button = await _describe(context, current)
        shown = Part(text)
        rows.append((button,))
    others = [
        Button(persona.name, f"instructions:{USE}{persona.id}")
        for persona in await instructions.list_personas(context.tx)
        if persona.name != current.persona
    ]
    rows += build_rows(others, BUTTONS_PER_ROW)
    return ActionResult(parts=(replace(shown, buttons=tuple(rows) if context.moderates else ()),))


def _build_first_hint(context: ActionContext) -> Part:
    hint = context.translate(
        "No instructions yet. Write, for example, `/instructions answer in two sentences`, and "
        "I'll follow that in every answer here."
    )
    if context.role == "admin" and not context.is_group:
        hint += " " + context.translate(
            "To save a persona that everybody can use: `/instructions save Tutor ask, don't tell`"
        )
    return build_hint(hint)


async def _describe(context: ActionContext, current: Instructions) -> tuple[str, Button]:
    """What is followed here, and the button that ends it."""
    translate = context.translate
    version = f"instructions:{_name_version(current)}"
    if not current.text:
        text = translate("I don't follow any instructions in this topic.")
        return text, Button(translate("As in the whole chat"), version)
    heading = translate("My instructions for every answer here:")
    if current.persona is not None:
        heading = translate("I answer here as {name}:", name=current.persona)
    lines = [heading, current.text]
    if await _waits_for_new_conversation(context, current.text):
        lines.append(translate("This applies after /new."))
    button = Button(translate("Remove"), version)
    if current.is_inherited:
        lines.append(translate("These are the whole chat's; this topic can have its own."))
        button = Button(translate("None here"), f"instructions:{NONE_HERE}")
    return "\n\n".join(lines), button


async def _waits_for_new_conversation(context: ActionContext, text: str) -> bool:
    """Whether the current conversation has begun with another text than this one."""
    conversation = await conversations.find(context.tx, context.lane)
    return conversation.instructions is not None and conversation.instructions != text


def _name_version(current: Instructions) -> str:
    """The moment at which a text was set, as its button carries it."""
    return f"{current.set_at:.3f}"
