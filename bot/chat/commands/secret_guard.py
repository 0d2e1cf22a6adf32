"""Protects secrets in messages of /tools: such a message is not used, not stored, and deleted in the chat.

The admin is asked to enter the secret on the machine.
"""

from bot import logs
from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.chat.commands.tool_tasks import unsay_message
from bot.tool_registry.secret_scanner import has_likely_secret
from bot.translations.translator import translatable

SECRET_NOTICE = translatable(
    "Your message seems to contain a secret, so I didn't use it. I don't keep any of it, and I'm deleting "
    "it here. Enter secrets on the server, with `canvasgram tools secret set NAME`, and write {NAME} in "
    "their place, as in --header 'Authorization: Bearer {NAME}'. If somebody else may have seen it, replace "
    "the secret where it came from."
)


def has_secret(args: str) -> bool:
    """Whether what follows /tools must not be used or stored: `secret …`, and what looks like a key."""
    return args.lower().split(maxsplit=1)[:1] == ["secret"] or has_likely_secret(args)


async def delete_secret_message(context: ActionContext) -> ActionResult:
    """Store nothing of the message, have it deleted, and say what to do instead."""
    message = await unsay_message(context)
    text = str(message.get("text", message.get("caption")))
    logs.hide_secrets(word for word in text.split() if has_likely_secret(word))
    return reply_text(context.translate(SECRET_NOTICE))
