"""Reactions of people to messages, and the updates about them."""

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json
from bot.sim.telegram.reactions import is_allowed, show, strip_variant
from bot.sim.telegram.world import World


def react(world: World, chat: Chat, message: ChatMessage, actor: Json, emoji: str) -> int:
    """Replace somebody's reaction, empty for none; returns the update's id, 0 for none.

    `actor` is `user` or `actor_chat` with its object. Private chats always tell the bot, groups only an
    administrator.
    """
    if emoji and not is_allowed(chat, emoji):
        raise ValueError(f"{emoji} is no reaction here")
    (who,) = actor.values()
    before = message.reactions_by.pop(who["id"], "")
    if emoji:
        message.reactions_by[who["id"]] = strip_variant(emoji)
    show(world, chat, message)
    if isinstance(chat, GroupChat) and not chat.bot_member.is_admin:
        return 0
    change = {
        "chat": chat.raw,
        "message_id": message.message_id,
        **actor,
        "date": world.unix_seconds(),
        "old_reaction": _to_types(before),
        "new_reaction": _to_types(strip_variant(emoji)),
    }
    return world.updates.put("message_reaction", change)


def _to_types(emoji: str) -> list[Json]:
    return [{"type": "emoji", "emoji": emoji}] if emoji else []
