"""What a refusal of Telegram says about a chat is noted, in the database and in memory."""

import pytest
from telegram.error import BadRequest, ChatMigrated, Forbidden, TelegramError

from bot.chat.group_directory import GroupDirectory
from bot.chat.unreachable_chats import UnreachableChats
from bot.db.engine import Database
from bot.db.people import groups
from bot.db.people.groups import Group
from bot.domain import Lane
from bot.telegram.chat_numbers import ChatNumbers
from bot.telegram.outcomes import DeliveryRefusal, RefusalKind, classify_error
from bot.turns import RunningTurns, TurnHandle

CHAT = -5
NEW_CHAT = -1000000000005
GROUP = Group(CHAT, "Family", "in", 1.0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Forbidden("Forbidden: bot was kicked from the supergroup chat"), "blocked"),
        (BadRequest("Not enough rights to send text messages to the chat"), "muted"),
        (BadRequest("Have no rights to send a message"), "muted"),
        (ChatMigrated(NEW_CHAT), "migrated"),
    ],
)
async def test_a_group_is_left_muted_or_moved(database: Database, error: TelegramError, kind: RefusalKind):
    running_turns = RunningTurns()
    handle = TurnHandle(1, 60.0)
    running_turns.add(Lane(CHAT), handle)
    directory = GroupDirectory(42, "bot", (), ChatNumbers())
    async with database.transaction() as tx:
        await groups.put(tx, GROUP)
    directory.remember(GROUP)
    refusal = classify_error(error)
    assert isinstance(refusal, DeliveryRefusal)
    assert refusal.kind == kind
    chats = UnreachableChats(database, directory, running_turns, clock=lambda: 2.0)
    await chats.note_refusal(Lane(CHAT, 7), refusal)
    await chats.note_refusal(Lane(CHAT, 7), refusal)
    async with database.read_transaction() as tx:
        [stored] = await groups.list_groups(tx)
    assert stored == directory.find(stored.chat)
    assert (stored.chat, stored.state, stored.can_send) == {
        "blocked": (CHAT, "left", True),
        "muted": (CHAT, "in", False),
        "migrated": (CHAT, "in", True),
    }[kind]
    assert running_turns.stop(Lane(stored.chat))
    assert handle.is_stopped
    assert directory.can_answer(stored.chat) == (kind == "migrated")
