"""Sets a person's time zone from the location they share, and tells them; one that is known stays.

The message itself is answered, too. A place that they forward says nothing about where they are. A city is
the answer to the question for their zone.
"""

from collections.abc import Sequence
from dataclasses import replace

from bot.chat.actions import ActionDependencies, build_hint, build_part
from bot.chat.commands.jobs import set_zone
from bot.db.engine import Database
from bot.db.people import people
from bot.db.queues import requeued_items
from bot.domain import Button, Part
from bot.jobs.times.places import find_zone_at
from bot.jobs.times.zones import find_answered_zone
from bot.jobs.user_jobs import ZONE_ASKED, ZONE_NEEDED, JobOwner
from bot.telegram.incoming.shared_items import Coordinates, find_coordinates
from bot.telegram.incoming.update import ParsedUpdate
from bot.translations.translator import Translator, translatable

HOW_TO_CHANGE = translatable("If you're elsewhere, tell me a city: `/zone Berlin`")


def find_newest_location(updates: Sequence[ParsedUpdate]) -> Coordinates | None:
    """The newest location among these messages that their sender shared themselves."""
    for update in reversed(updates):
        message = update.item.body.get("message")
        if isinstance(message, dict) and (coordinates := find_coordinates(message)):
            return coordinates
    return None


async def find_zone_answer(database: Database, update: ParsedUpdate) -> str | None:
    """The zone that a message names in answer to the question for it; None for any other message."""
    message = update.item.body.get("message", {})
    zone = find_answered_zone(message.get("text", ""))
    if zone is None or update.person is None or "forward_origin" in message:
        return None
    replied_to = message.get("reply_to_message", {}).get("message_id", 0)
    async with database.read_transaction() as tx:
        is_answer = await requeued_items.can_answer(
            tx, update.item.id, update.person, errors=(ZONE_NEEDED, ZONE_ASKED), replied_to=replied_to
        )
    return zone if is_answer else None


async def follow_location(
    database: Database, deps: ActionDependencies, coordinates: Coordinates, owner: JobOwner, *, now: float
) -> None:
    """Set the person's zone to that of a place, or offer that if they have another one.

    Nothing if it is theirs already, or the place has none.
    """
    zone = await find_zone_at(coordinates.latitude, coordinates.longitude)
    if zone is None:
        return
    async with database.transaction() as tx:
        known_zone = await people.find_time_zone(tx, owner.person)
        if known_zone == zone:
            return
        translate = deps.access.get_translator(owner.person)
        if known_zone is None:
            part = await set_zone(tx, deps, owner, zone, now=now)
            hint = build_hint(f"{part.text} {translate(HOW_TO_CHANGE)}")
            notice = replace(hint, buttons=part.buttons)
        else:
            notice = build_zone_offer(translate, zone)
        await deps.user_jobs.notify_owner(tx, owner, replace(notice, silent=True))


def build_zone_offer(translate: Translator, zone: str) -> Part:
    """Build the notice that a place is in another zone than its person's, with a button that sets it."""
    button = Button(translate("Use {zone}", zone=zone), f"zone:{zone}")
    return build_part(translate("This place is in a different time zone from yours."), (button,))
