"""How people, chats and topics are called on the page. Pure."""

from collections.abc import Mapping

from bot.admin.components import cut
from bot.domain import Lane
from bot.usage.figures import EMPTY_CELL


def name_person(person: int | None, names: Mapping[int, str]) -> str:
    """How a person is called on the page."""
    if person is None:
        return EMPTY_CELL
    return cut(names.get(person, f"Person {person}"))


def name_lane(key: str | None, names: Mapping[int, str]) -> str:
    """How a lane is called on the page: by its person or its group, and its topic."""
    if key is None:
        return EMPTY_CELL
    try:
        lane = Lane.parse(key)
    except ValueError:  # of the gateway itself, such as a warm-up
        return cut(key)
    name = cut(names.get(lane.chat, f"Chat {lane.chat}"))
    if lane.topic == 0:
        return f"{name}, outside topics"
    return name if lane.topic is None else f"{name}, topic {lane.topic}"
