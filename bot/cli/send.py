"""What `canvasgram send` does: it stores a message for a chat, which a running gateway finds and sends."""

import sys
from collections.abc import Collection

from bot.db.database_url import is_postgresql
from bot.db.engine import open_database
from bot.db.people import groups, people
from bot.db.postgresql.notifications import NO_LIFE, build_payload, notify
from bot.db.queues import inbox, outbox
from bot.db.readonly import check_readable
from bot.db.transaction import Transaction
from bot.domain import Lane
from bot.errors import QuestionRefused
from bot.telegram.formatting.render import build_plain_parts

MAX_CHARS = 65_536  # some eighteen messages
SENT_BY_COMMAND = {"job": "send"}
"""The body of the item that such a message answers: the chat is asked about one of unknown outcome."""


def read_stdin() -> str:
    """Read a text from stdin, and no more of it than tells that it is too long."""
    data = sys.stdin.buffer.read(MAX_CHARS * 4 + 1)
    return data.decode("utf-8", "replace")


async def store_message(
    database_url: str, words: str, text: str, configured_admins: Collection[int], *, now: float
) -> str:
    """Store a text for the chat that `words` name, split as answers are; return what to print.

    Raises QuestionRefused for a chat or a text that cannot be, StoreUnavailable without a database.
    """
    if len(text) > MAX_CHARS:
        raise QuestionRefused(f"The text is too long: {MAX_CHARS:,} characters can be sent.")
    parts = build_plain_parts(text)
    if not parts:
        raise QuestionRefused('The text is empty. Example: canvasgram send Family "Dinner is ready"')
    check_readable(database_url)
    async with open_database(database_url) as database, database.transaction() as tx:
        chat, name = await _find_chat(tx, words, configured_admins)
        lane = Lane(chat)
        item = await inbox.add(tx, kind="system", lane=lane, sender=None, body=SENT_BY_COMMAND, now=now)
        await inbox.mark_done(tx, [item], now=now)
        await outbox.add(tx, item=item, lane=lane, parts=parts, now=now)
        if is_postgresql(database_url):
            await notify(tx, build_payload(NO_LIFE, [("outbox", lane.key)]))
    return (
        f"Stored for {name}. A running gateway sends it within three seconds, else the next one that starts."
    )


async def _find_chat(tx: Transaction, words: str, configured_admins: Collection[int]) -> tuple[int, str]:
    """The chat of a person or a group, by its number or its name, with that name.

    Only where the gateway may write: to people with access who have not blocked it, and to groups it is in.
    """
    unreachable = await people.list_unreachable(tx)
    present = [group for group in await groups.list_groups(tx) if group.state == "in" and group.can_send]
    names = {admin: f"Person {admin}" for admin in configured_admins}
    names |= {person.id: person.name for person in await people.list_people(tx) if person.role != "blocked"}
    names = {chat: name for chat, name in names.items() if chat not in unreachable}
    names |= {group.chat: group.title for group in present}
    wanted = words.casefold().split()
    named = {chat for chat, name in names.items() if wanted in ([str(chat)], name.casefold().split())}
    named |= {group.chat for group in present if group.has_name(words)}
    if len(named) == 1:
        [chat] = named
        return chat, names[chat]
    if named:
        listed = ", ".join(map(str, sorted(named)))
        raise QuestionRefused(f"Several chats are called {words}. Say which one by its number: {listed}.")
    listed = ", ".join(sorted(names.values(), key=str.casefold)[:20])
    raise QuestionRefused(f"There is no chat {words!r} to send to. There are: {listed or 'none yet'}.")
