"""Reactions to messages: which there are, setMessageReaction, and the updates about those of people."""

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

KNOWN_REACTIONS = frozenset(
    "❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐"
    "🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
) | {"❤\u200d🔥", "👨\u200d💻", "🤷\u200d♂", "🤷\u200d♀"}


def set_message_reaction(world: World, params: Params) -> bool:
    chat = world.find_writable_chat(params)
    message = chat.find_message(params.integer("message_id"))
    if message is None:
        raise bad_request("message to react not found")
    try:
        sent = params.json("reaction") or []
        reactions = [_plain(str(reaction["emoji"])) for reaction in sent]
    except (ValueError, TypeError, KeyError):
        raise bad_request("REACTION_INVALID") from None
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if not all(is_allowed(chat, emoji) for emoji in reactions):
        raise bad_request("REACTION_INVALID")
    message.reactions = reactions
    _show(world, chat, message)
    return True


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
        message.reactions_by[who["id"]] = _plain(emoji)
    _show(world, chat, message)
    if isinstance(chat, GroupChat) and not chat.bot_member.is_admin:
        return 0
    change = {
        "chat": chat.raw,
        "message_id": message.message_id,
        **actor,
        "date": world.unix_seconds(),
        "old_reaction": _to_types(before),
        "new_reaction": _to_types(_plain(emoji)),
    }
    return world.updates.put("message_reaction", change)


def is_allowed(chat: Chat, emoji: str) -> bool:
    """Whether a reaction exists and the group does not forbid it."""
    if isinstance(chat, GroupChat) and chat.allowed_reactions is not None:
        return _plain(emoji) in chat.allowed_reactions
    return _plain(emoji) in KNOWN_REACTIONS


def _plain(emoji: str) -> str:
    return emoji.replace("\ufe0f", "")


def _to_types(emoji: str) -> list[Json]:
    return [{"type": "emoji", "emoji": emoji}] if emoji else []


def _show(world: World, chat: Chat, message: ChatMessage) -> None:
    shown = {"reactions": message.shown_reactions}
    world.changes.notify(ChatEvent("reaction", chat.id, message.message_id, shown))
