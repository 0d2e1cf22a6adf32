"""What a chat agreed to holds for that chat and that host, and is asked for once."""

import pytest

from bot.db import chats
from bot.db.chats import KINDS, Consent
from bot.db.engine import Database

CHAT, HOST = 5, "models.example"


async def told(database: Database, chat: int = CHAT, host: str = HOST) -> Consent:
    async with database.reading() as tx:
        return await chats.consent(tx, chat, host)


async def test_a_chat_that_was_never_asked_has_agreed_to_nothing(database: Database):
    assert await told(database) == Consent(asked=False, kinds=None)
    assert not (await told(database)).given


async def test_the_question_is_put_once(database: Database):
    async with database.transaction() as tx:
        assert [await chats.ask_consent(tx, CHAT, HOST) for _ in range(2)] == [True, False]
    assert await told(database) == Consent(asked=True, kinds=None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("text",), {"text"}),
        (KINDS, set(KINDS)),
        (("images",), {"text", "images"}),
        ((), set()),
    ],
)
async def test_the_answer_is_kept_in_kinds_and_nothing_goes_without_the_text(
    database: Database, given: tuple[chats.Kind, ...], kept: set[chats.Kind]
):
    async with database.transaction() as tx:
        await chats.give_consent(tx, CHAT, HOST, given)
        assert not await chats.ask_consent(tx, CHAT, HOST)
    found = await told(database)
    assert found == Consent(asked=True, kinds=frozenset(kept))
    assert found.given is bool(kept)


async def test_what_was_said_of_one_host_does_not_hold_for_another(database: Database):
    async with database.transaction() as tx:
        await chats.give_consent(tx, CHAT, HOST, KINDS)
    assert await told(database, host="other.example") == Consent()


async def test_chats_answer_for_themselves(database: Database):
    async with database.transaction() as tx:
        await chats.give_consent(tx, CHAT, HOST, KINDS)
    assert await told(database, chat=6) == Consent()


async def test_an_answer_can_be_taken_back(database: Database):
    async with database.transaction() as tx:
        await chats.give_consent(tx, CHAT, HOST, KINDS)
        await chats.give_consent(tx, CHAT, HOST, ())
    assert (await told(database)).kinds == frozenset()
