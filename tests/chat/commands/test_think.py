"""/think shows the mode and changes it for later turns; any input gets one clear line."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.db.conversations import chat_settings, conversations
from bot.db.conversations.chat_settings import ThinkMode
from bot.db.engine import Database
from bot.domain import Lane
from tests.support.update_harness import ANNA, BOB, UpdateHarness

BUTTONS = {"auto": "think:auto", "on": "think:on", "off": "think:off"}


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    await harness.let_in(BOB)
    return harness


async def load_think_mode(harness: UpdateHarness, chat: int = ANNA) -> ThinkMode | None:
    async with harness.database.read_transaction() as tx:
        return await chat_settings.load_think_mode(tx, Lane(chat))


async def test_without_a_word_it_shows_how_it_stands_with_three_buttons(harness: UpdateHarness):
    (sent,) = await harness.send_text("/think")
    assert sent.text.splitlines()[0] == "Thinking here: automatic (the default)."
    assert list(sent.buttons) == ["✓ auto", "on", "off"]
    assert list(sent.buttons.values()) == list(BUTTONS.values())
    assert await load_think_mode(harness) is None


@pytest.mark.parametrize(
    ("text", "mode", "line"),
    [
        ("/think on", "on", "From your next message on, I'll think before every answer. That takes longer."),
        ("/think OFF ", "off", "From your next message on, I'll answer without thinking first."),
        (
            "/think\nauto",
            "auto",
            "From your next message on, I'll think first when a question needs tools or several steps.",
        ),
    ],
)
async def test_a_word_changes_it_for_this_chat_alone(
    harness: UpdateHarness, text: str, mode: ThinkMode, line: str
):
    (sent,) = await harness.send_text(text)
    assert (sent.text, sent.buttons) == (line, {})
    assert await load_think_mode(harness) == mode
    assert await load_think_mode(harness, BOB) is None
    (sent,) = await harness.send_text("/think")
    name = {"auto": "automatic"}.get(mode, mode)
    assert sent.text.splitlines()[0] == f"Thinking here: {name} (the default: automatic)."
    assert f"✓ {mode}" in sent.buttons


@given(word=st.text(min_size=1, max_size=40).filter(lambda word: word.strip().lower() not in {"", *BUTTONS}))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_an_unknown_word_is_one_clear_line_and_changes_nothing(harness: UpdateHarness, word: str):
    (sent,) = await harness.send_text(f"/think {word}")
    assert sent.text == "Write /think auto, /think on or /think off. /think shows the current setting."
    assert await load_think_mode(harness) is None


async def test_a_button_changes_it_and_shows_it(harness: UpdateHarness):
    toast, sent = await harness.tap("think:off")
    assert (toast, sent) == ("From your next message on, I'll answer without thinking first.", [])
    assert await load_think_mode(harness) == "off"
    (redrawn,) = harness.bot.calls_of("edit_message_text")
    assert redrawn["given"][0].startswith("Thinking here: off (the default: automatic).")
    assert "✓ off" in str(redrawn["reply_markup"])


@pytest.mark.parametrize("data", ["think:", "think:maybe", "think:ON"])
async def test_a_button_with_another_word_is_too_old(harness: UpdateHarness, data: str):
    assert (await harness.tap(data))[0] == "This button is too old."
    assert await load_think_mode(harness) is None


async def test_it_does_not_begin_the_conversation_and_outlives_it(harness: UpdateHarness):
    await harness.send_text("/think on")
    async with harness.database.read_transaction() as tx:
        assert (await conversations.find(tx, Lane(ANNA))).notes is None
    await harness.send_text("/new")
    assert await load_think_mode(harness) == "on"
