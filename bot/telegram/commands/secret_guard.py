"""A message of /tools that holds a secret is not used: it is dropped from all that is kept, and deleted in
the chat.

The admin is told to enter it on the machine.
"""

from typing import Any

from bot import logs
from bot.db.queues import inbox
from bot.telegram.actions import Answer, Call, part
from bot.telegram.commands import tool_tasks as errands
from bot.tool_registry.secret_scanner import holds_a_secret

TOLD = (
    "Your message looks as if it held a secret, so I did not use it: I keep nothing of it and delete it here. Enter "
    "secrets on the machine, with `canvasgram tools secret set NAME`, and name them in a header as {NAME}: `canvasgram "
    "tools add --help`. If somebody else may have seen it, have it replaced where it came from."
)


def is_secret(words: str) -> bool:
    """Whether what follows /tools must not be used or kept: any word of /tools secret, and what looks like a
    key.
    """
    return words.lower().split(maxsplit=1)[:1] == ["secret"] or holds_a_secret(words)


async def unsay(call: Call) -> Answer:
    """Keep nothing of the message, have it deleted, and say what to do instead."""
    message: dict[str, Any] = call.item.body.get("message") or call.item.body["edited_message"]
    logs.hide(
        word for word in str(message.get("text", message.get("caption"))).split() if holds_a_secret(word)
    )
    await inbox.forget_body(call.tx, [call.item.id])
    sent = await errands.write(call, "unsay", {"message": message["message_id"]})
    return Answer(parts=(part(TOLD),), then=sent.then)
