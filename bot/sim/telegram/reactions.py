"""Reactions to messages: which there are, and setMessageReaction."""

from bot.sim.telegram.chats import Chat, ChatMessage
from bot.sim.telegram.events import ChatEvent
from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.params import Params, bad_request
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
        reactions = [strip_variant(str(reaction["emoji"])) for reaction in sent]
    except (ValueError, TypeError, KeyError):
        raise bad_request("REACTION_INVALID") from None
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if not all(is_allowed(chat, emoji) for emoji in reactions):
        raise bad_request("REACTION_INVALID")
    message.reactions = reactions
    show(world, chat, message)
    return True


def is_allowed(chat: Chat, emoji: str) -> bool:
    """Whether a reaction exists and the group does not forbid it."""
    if isinstance(chat, GroupChat) and chat.allowed_reactions is not None:
        return strip_variant(emoji) in chat.allowed_reactions
    return strip_variant(emoji) in KNOWN_REACTIONS


def strip_variant(emoji: str) -> str:
    """An emoji without the mark that asks for its coloured form."""
    return emoji.replace("\ufe0f", "")


def show(world: World, chat: Chat, message: ChatMessage) -> None:
    """Tell who sees the chat of the reactions to a message."""
    shown = {"reactions": message.shown_reactions}
    world.changes.notify(ChatEvent("reaction", chat.id, message.message_id, shown))
