"""The methods about chats and their members: getChatMember, leaveChat and the like."""

from bot.sim.telegram.group_chats import GroupChat
from bot.sim.telegram.members import Member
from bot.sim.telegram.params import Json, Params, bad_request
from bot.sim.telegram.world import World

_MAX_TOPIC_NAME = 128


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
