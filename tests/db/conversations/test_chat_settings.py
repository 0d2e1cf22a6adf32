"""What a chat agreed to holds for that chat and that host, and is asked for once."""

import pytest

from bot.db.conversations import chat_settings as chats
from bot.db.conversations import conversations
from bot.db.conversations.chat_settings import CONTENT_KINDS, THINK_MODES, Consent
from bot.db.engine import Database
from bot.domain import Lane

CHAT, HOST = 5, "models.example"


async def load_consent(database: Database, chat: int = CHAT, host: str = HOST) -> Consent:
    async with database.read_transaction() as tx:
        return await chats.load_consent(tx, chat, host)


async def test_a_chat_that_was_never_asked_has_agreed_to_nothing(database: Database):
    assert await load_consent(database) == Consent(was_asked=False, kinds=None)
    assert not (await load_consent(database)).is_given


async def test_the_question_is_put_once(database: Database):
    async with database.transaction() as tx:
        assert [await chats.mark_consent_asked(tx, CHAT, HOST) for _ in range(2)] == [True, False]
    assert await load_consent(database) == Consent(was_asked=True, kinds=None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("text",), {"text"}),
        (CONTENT_KINDS, set(CONTENT_KINDS)),
        (("images",), {"text", "images"}),
        ((), set()),
    ],
)
async def test_the_answer_is_kept_in_kinds_and_nothing_goes_without_the_text(
    database: Database, given: tuple[chats.ContentKind, ...], kept: set[chats.ContentKind]
):
    async with database.transaction() as tx:
        await chats.store_consent(tx, CHAT, HOST, given)
        assert not await chats.mark_consent_asked(tx, CHAT, HOST)
    found = await load_consent(database)
    assert found == Consent(was_asked=True, kinds=frozenset(kept))
    assert found.is_given is bool(kept)


async def test_what_was_said_of_one_host_does_not_hold_for_another(database: Database):
    async with database.transaction() as tx:
        await chats.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
    assert await load_consent(database, host="other.example") == Consent()


async def test_chats_answer_for_themselves(database: Database):
    async with database.transaction() as tx:
        await chats.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
    assert await load_consent(database, chat=6) == Consent()


async def test_an_answer_can_be_taken_back(database: Database):
    async with database.transaction() as tx:
        await chats.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
        await chats.store_consent(tx, CHAT, HOST, ())
    assert (await load_consent(database)).kinds == frozenset()


async def test_a_lane_thinks_as_the_house_does_until_it_is_told_otherwise(database: Database):
    async with database.transaction() as tx:
        assert await chats.load_think_mode(tx, Lane(CHAT)) is None
        for wanted in THINK_MODES:
            await chats.set_think_mode(tx, Lane(CHAT), wanted)
            assert await chats.load_think_mode(tx, Lane(CHAT)) == wanted
        assert await chats.load_think_mode(tx, Lane(CHAT, 3)) is None


async def test_what_is_said_about_thinking_leaves_consent_and_conversation_alone(database: Database):
    async with database.transaction() as tx:
        await chats.set_think_mode(tx, Lane(CHAT), "on")
        assert (await conversations.find(tx, Lane(CHAT))).notes is None
        await conversations.begin(tx, Lane(CHAT), 1, "likes tea", ())
        await chats.store_consent(tx, CHAT, HOST, ["text"])
        await chats.set_think_mode(tx, Lane(CHAT), "off")
        assert (await conversations.find(tx, Lane(CHAT))).notes == "likes tea"
        assert (await chats.load_consent(tx, CHAT, HOST)).is_given
        assert await chats.load_think_mode(tx, Lane(CHAT)) == "off"
