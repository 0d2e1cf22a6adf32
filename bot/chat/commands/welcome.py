"""The greeting of somebody who has just been let in, with examples to tap."""

from functools import partial

from bot.chat.actions import ActionContext, ActionResult, BestEffortCall, OwnerSettings, build_part
from bot.db.people.people import RoleOrBlocked
from bot.domain import Button, Part
from bot.translations.translator import Translator, translatable

EXAMPLES = (
    translatable("What time is it in Tokyo?"),
    translatable("What is 17.5% of 2,480?"),
    translatable("Explain tides in three sentences."),
)


def build_welcome(context: ActionContext, role: RoleOrBlocked) -> ActionResult:
    """Greet a person; an admin's menu is set with it, for Telegram refuses it before they have written."""
    set_menu: tuple[BestEffortCall, ...] = ()
    if role == "admin":
        client = context.deps.best_effort_calls
        set_menu = (partial(client.set_menu, context.person, context.translate.language, is_admin=True),)
    greeting = build_greeting(context.translate, context.name, role, list_examples(context.deps.settings))
    return ActionResult(parts=(greeting,), best_effort_calls=set_menu)


def list_examples(settings: OwnerSettings) -> tuple[str, ...]:
    """What the greeting offers, by the numbers of its buttons."""
    return settings.examples or EXAMPLES


def build_greeting(
    translate: Translator, name: str, role: RoleOrBlocked, examples: tuple[str, ...] = EXAMPLES
) -> Part:
    """Build what somebody reads first: a greeting with examples to tap."""
    paragraphs = [
        translate(
            "Hello {name}. Just write to me. I can look things up on web pages, read photos and PDFs, and "
            "remind you of things. /help shows more.",
            name=name,
        )
    ]
    if role == "admin":
        paragraphs.append(
            translate("You're an admin here: /invite makes an invite link, /people lists everybody.")
        )
    paragraphs.append(translate("To begin, tap an example:"))
    rows = [(Button(translate(question), f"ask:{number}"),) for number, question in enumerate(examples)]
    return build_part("\n\n".join(paragraphs), *rows)
