"""The methods about chats and their members: getChat, getChatMember, leaveChat and the like."""

from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.members import Member
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

_MAX_TOPIC_NAME = 128
_GIFTS = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")
_MAX_REACTIONS = 11  # of different kinds on one message


def get_chat(world: World, params: Params) -> Json:
    chat = world.find_chat(params)
    details: Json = {
        "accent_color_id": 0,
        "max_reaction_count": _MAX_REACTIONS,
        "accepted_gift_types": dict.fromkeys(_GIFTS, False),
    }
    if isinstance(chat, GroupChat) and chat.linked_chat_id:
        details["linked_chat_id"] = chat.linked_chat_id
    if isinstance(chat, GroupChat) and chat.allowed_reactions is not None:
        allowed = sorted(chat.allowed_reactions)
        details["available_reactions"] = [{"type": "emoji", "emoji": emoji} for emoji in allowed]
    return chat.raw | details


def get_chat_member(world: World, params: Params) -> Json:
    chat = world.find_chat(params)
    user_id = params.integer("user_id")
    if user_id <= 0:
        raise bad_request("invalid user_id specified")
    user = world.find_user(user_id)
    if user is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    if isinstance(chat, GroupChat):
        return chat.find_member(user).to_raw()
    return Member(user).to_raw()


def get_chat_administrators(world: World, params: Params) -> list[Json]:
    """All administrators who are people, and the bot itself; anonymous ones are named too."""
    chat = world.find_chat(params)
    if not isinstance(chat, GroupChat):
        raise bad_request("there are no administrators in the private chat")
    own_id = world.bot["id"]
    returns_bots = params.flag("return_bots")
    return [
        member.to_raw()
        for member in chat.admins
        if returns_bots or not member.user["is_bot"] or member.user["id"] == own_id
    ]


def get_chat_member_count(world: World, params: Params) -> int:
    chat = world.find_chat(params)
    if not isinstance(chat, GroupChat):
        return 2
    return chat.silent_member_count + sum(member.is_present for member in chat.members.values())


def leave_chat(world: World, params: Params) -> bool:
    chat = world.find_chat(params)
    if not isinstance(chat, GroupChat):
        raise bad_request("chat member status can't be changed in private chats")
    chat.members[world.bot["id"]] = Member(world.bot, "left")
    world.changes.notify()
    return True


def edit_forum_topic(world: World, params: Params) -> bool:
    chat = world.find_chat(params)
    name = params.text("name").strip()
    topic = chat.topics.get(params.integer("message_thread_id"))
    if isinstance(chat, GroupChat) and not chat.bot_member.is_admin:
        raise bad_request("not enough rights to edit the topic")
    if topic is None:
        raise bad_request("TOPIC_ID_INVALID")
    if len(name) > _MAX_TOPIC_NAME:
        raise bad_request("TOPIC_TITLE_INVALID")
    if name in {"", topic.name}:
        raise bad_request("TOPIC_NOT_MODIFIED")
    topic.name = name
    world.changes.notify()
    return True


def create_forum_topic(world: World, params: Params) -> Json:
    chat = world.find_chat(params)
    name = params.text("name").strip()
    if not isinstance(chat, GroupChat) or not chat.is_forum:
        raise bad_request("the chat is not a forum")
    if not chat.bot_member.is_admin:
        raise bad_request("not enough rights to create a topic")
    if not 1 <= len(name) <= _MAX_TOPIC_NAME:
        raise bad_request("TOPIC_TITLE_EMPTY")
    topic: Json = {"name": name, "icon_color": 7322096}
    thread_id = chat.next_message_id()
    root = {
        "message_id": thread_id,
        "message_thread_id": thread_id,
        "is_topic_message": True,
        "from": world.bot,
        "chat": chat.raw,
        "date": world.unix_seconds(),
        "forum_topic_created": topic,
    }
    world.open_topic(chat, root)
    return {"message_thread_id": thread_id, **topic}
