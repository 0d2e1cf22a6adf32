"""/language: whose language the gateway's own words are in, and how it is chosen."""

from typing import Any

import pytest

from bot.chat.access import Access
from bot.db.engine import Database
from bot.db.people import people
from bot.db.people.people import PersonLanguages
from tests.support.update_harness import ADMIN, ANNA, SentMessage, UpdateHarness, build_user

STRANGER = 77


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


async def send(harness: UpdateHarness, text: str, code: str, person: int = ANNA) -> list[SentMessage]:
    """Send a text as somebody whose Telegram has this language."""
    sender: dict[str, Any] = build_user(person) | {"language_code": code}
    return await harness.send_text(text, person, **{"from": sender})


async def load_stored(harness: UpdateHarness, person: int = ANNA) -> PersonLanguages:
    async with harness.database.read_transaction() as tx:
        return (await people.load_languages(tx))[person]


async def test_words_follow_the_language_of_telegram_and_what_is_not_a_message_too(harness: UpdateHarness):
    await send(harness, "Hallo", "de-AT")
    assert harness.turns.requests[0].translate.language == "de"
    assert await load_stored(harness) == PersonLanguages(None, "de")
    after_restart = Access("pairing")
    await after_restart.load(harness.database)
    assert after_restart.get_translator(ANNA).language == "de"
    await send(harness, "Bonjour", "fr")
    assert harness.access.get_translator(ANNA).language == "fr"


@pytest.mark.parametrize("is_configured_admin", [False, True])
async def test_the_language_of_people_whom_only_the_settings_let_in_is_stored(
    database: Database, is_configured_admin: bool
):
    admins = frozenset({STRANGER}) if is_configured_admin else frozenset[int]()
    harness = UpdateHarness(database, "pairing" if is_configured_admin else "open", admins)
    await send(harness, "Hallo", "de", STRANGER)
    assert harness.turns.requests[0].translate.language == "de"
    assert await load_stored(harness, STRANGER) == PersonLanguages(None, "de")
    async with database.transaction() as tx:
        assert (await people.find_translator(tx, STRANGER)).language == "de"
        await people.remove(tx, STRANGER, now=harness.now)
        assert await people.load_languages(tx) == {}


async def test_nothing_is_stored_of_somebody_who_only_looks_at_an_open_bot(database: Database):
    harness = UpdateHarness(database, "open")
    await send(harness, "/help", "de", STRANGER)
    assert harness.access.get_translator(STRANGER).language == "de"
    async with database.read_transaction() as tx:
        assert await people.list_names(tx) == {}


@pytest.mark.parametrize("code", ["it-ch", "", "x" * 500, "../../etc"])
async def test_a_language_without_translations_is_answered_in_english(harness: UpdateHarness, code: str):
    (sent,) = await send(harness, "/stop", code)
    assert sent.text == "Nothing is running."


async def test_a_choice_goes_before_telegrams_language_until_it_is_taken_back(harness: UpdateHarness):
    await send(harness, "/language español", "de")
    assert await load_stored(harness) == PersonLanguages("es", "de")
    assert harness.access.get_translator(ANNA).language == "es"
    await send(harness, "Hello", "fr")
    assert harness.turns.requests[0].translate.language == "es"
    (menu,) = harness.bot.calls_of("set_my_commands")
    assert (menu["scope"].chat_id, menu["language_code"]) == (ANNA, None)
    await send(harness, "/language AUTO", "fr")
    assert harness.access.get_translator(ANNA).language == "fr"
    assert len(harness.bot.calls_of("delete_my_commands")) == 1


async def test_a_button_changes_it_and_shows_what_holds_now(harness: UpdateHarness):
    (sent,) = await send(harness, "/language", "en-GB")
    assert sent.text.startswith("My own messages to you are in English, like your Telegram.\n")
    assert sent.buttons["✓ Like Telegram"] == "language:auto"
    await harness.tap(sent.buttons["Русский"])
    assert harness.access.get_translator(ANNA).language == "ru"
    ((text, *_),) = [call["given"] for call in harness.bot.calls_of("edit_message_text")]
    assert "русский" in text


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("german", "de"),
        ("Español", "es"),
        ("espanol", "es"),
        ("FRANÇAIS", "fr"),
        ("portugues", "pt"),
        ("pt-BR", "pt"),
        ("de-AT", "de"),
        ("中文", "zh"),
    ],
)
async def test_a_language_is_chosen_by_its_code_or_a_name_of_it(
    harness: UpdateHarness, words: str, language: str
):
    await harness.send_text(f"/language {words}")
    assert harness.access.get_languages(ANNA).chosen == language
    await harness.send_text("/language de")
    await harness.send_text("/language Russisch")
    assert harness.access.get_languages(ANNA).chosen == "ru"


async def test_what_telegram_speaks_is_not_claimed_where_there_are_no_such_translations(
    harness: UpdateHarness,
):
    (sent,) = await send(harness, "/language", "it")
    assert sent.text.startswith("My own messages to you are in English.\n")
    (sent,) = await send(harness, "/language", "de")
    assert ", wie dein Telegram." in sent.text
    (sent,) = await send(harness, "/language", "it")
    assert sent.text.startswith("My own messages to you are in English.\n")


@pytest.mark.parametrize("words", ["klingon", "d", "x" * 4000, "de; DROP"])
async def test_an_unknown_language_is_answered_with_those_there_are(harness: UpdateHarness, words: str):
    (sent,) = await harness.send_text(f"/language {words}")
    assert sent.text == "I don't know this language yet. Choose one of these:"
    assert sent.buttons["Deutsch"] == "language:de"
    assert harness.access.get_languages(ANNA) == PersonLanguages()
    toast, _ = await harness.tap("language:xx")
    assert toast == "This button is too old."


async def test_an_admin_by_the_settings_can_choose_without_having_a_role_stored(database: Database):
    harness = UpdateHarness(database, configured_admins=frozenset({STRANGER}))
    await harness.send_text("/language fr", STRANGER)
    assert await load_stored(harness, STRANGER) == PersonLanguages("fr", None)


async def test_who_is_let_in_is_greeted_in_the_language_they_wrote_with(harness: UpdateHarness):
    await send(harness, "Hallo?", "zh-hans", STRANGER)
    await harness.send_text(f"/people add {STRANGER}", ADMIN)
    async with harness.database.read_transaction() as tx:
        stranger_languages = (await people.load_languages(tx))[STRANGER]
    assert stranger_languages == PersonLanguages(None, "zh")


@pytest.mark.parametrize(
    ("code", "answer", "greeting"),
    [
        ("de", "Es läuft nichts.", "Hallo Anna."),
        ("es", "No hay nada en marcha.", "Hola, Anna."),
        ("fr", "Rien n’est en cours.", "Bonjour Anna."),
        ("pt-br", "Não há nada em andamento.", "Olá, Anna."),
        ("ru", "Сейчас ничего не выполняется.", "Здравствуйте, Anna."),
        ("zh-hant", "现在没有正在处理的内容。", "你好，Anna。"),
    ],
)
async def test_commands_are_answered_in_the_persons_language(
    harness: UpdateHarness, code: str, answer: str, greeting: str
):
    (sent,) = await send(harness, "/stop", code)
    assert sent.text == answer
    (sent,) = await send(harness, "/start", code)
    assert sent.text.startswith(greeting)
    (sent,) = await send(harness, "/help", code)
    copied = [_cut(sent.text, entity["offset"], entity["length"]) for entity in sent.entities]
    assert any(example.startswith("/remind ") for example in copied)


def _cut(text: str, offset: int, length: int) -> str:
    """The part of a text that an entity in UTF-16 units covers."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le")
