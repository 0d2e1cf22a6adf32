"""A chat's consent holds for that chat and that host, and is asked for once."""

import pytest

from bot.db.conversations import chat_settings, conversations
from bot.db.conversations.chat_settings import CONTENT_KINDS, THINK_MODES, Consent
from bot.db.conversations.conversations import Conversation
from bot.db.engine import Database
from bot.domain import Lane

CHAT = 5
HOST = "models.example"


async def load_consent(database: Database, chat: int = CHAT, host: str = HOST) -> Consent:
    async with database.read_transaction() as tx:
        return await chat_settings.load_consent(tx, chat, host)


async def test_a_chat_that_was_never_asked_has_agreed_to_nothing(database: Database):
    assert await load_consent(database) == Consent()
    assert not (await load_consent(database)).is_given


async def test_the_question_is_asked_once(database: Database):
    async with database.transaction() as tx:
        assert [await chat_settings.mark_consent_asked(tx, CHAT, HOST) for _ in range(2)] == [True, False]
    assert await load_consent(database) == Consent()


@pytest.mark.parametrize(
    ("kinds", "stored"),
    [
        (("text",), {"text"}),
        (CONTENT_KINDS, set(CONTENT_KINDS)),
        (("images",), {"text", "images"}),
        ((), set()),
    ],
)
async def test_the_answer_is_stored_as_kinds_and_any_kind_includes_text(
    database: Database, kinds: tuple[chat_settings.ContentKind, ...], stored: set[chat_settings.ContentKind]
):
    async with database.transaction() as tx:
        await chat_settings.store_consent(tx, CHAT, HOST, kinds)
        assert not await chat_settings.mark_consent_asked(tx, CHAT, HOST)
    consent = await load_consent(database)
    assert consent == Consent(frozenset(stored))
    assert consent.is_given is bool(stored)


async def test_consent_for_one_host_does_not_hold_for_another(database: Database):
    async with database.transaction() as tx:
        await chat_settings.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
    assert await load_consent(database, host="other.example") == Consent()


async def test_consent_of_one_chat_does_not_hold_for_another(database: Database):
    async with database.transaction() as tx:
        await chat_settings.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
    assert await load_consent(database, chat=6) == Consent()


async def test_consent_can_be_withdrawn(database: Database):
    async with database.transaction() as tx:
        await chat_settings.store_consent(tx, CHAT, HOST, CONTENT_KINDS)
        await chat_settings.store_consent(tx, CHAT, HOST, ())
    assert (await load_consent(database)).kinds == frozenset()


async def test_a_lane_has_no_think_mode_until_it_is_set(database: Database):
    async with database.transaction() as tx:
        assert await chat_settings.load_think_mode(tx, Lane(CHAT)) is None
        for mode in THINK_MODES:
            await chat_settings.set_think_mode(tx, Lane(CHAT), mode)
            assert await chat_settings.load_think_mode(tx, Lane(CHAT)) == mode
        assert await chat_settings.load_think_mode(tx, Lane(CHAT, 3)) is None


async def test_setting_the_think_mode_leaves_consent_and_conversation_alone(database: Database):
    async with database.transaction() as tx:
        await chat_settings.set_think_mode(tx, Lane(CHAT), "on")
        assert (await conversations.find(tx, Lane(CHAT))).notes is None
        await conversations.begin(tx, Lane(CHAT), Conversation(notes="likes tea"), ())
        await chat_settings.store_consent(tx, CHAT, HOST, ["text"])
        await chat_settings.set_think_mode(tx, Lane(CHAT), "off")
        assert (await conversations.find(tx, Lane(CHAT))).notes == "likes tea"
        assert (await chat_settings.load_consent(tx, CHAT, HOST)).is_given
        assert await chat_settings.load_think_mode(tx, Lane(CHAT)) == "off"
