"""/deep and /consent: the chat is asked before anything leaves the gateway; each message is answered once."""

import pytest

from bot.chat.commands import registry
from bot.db.conversations import chat_settings
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent
from bot.db.engine import Database
from bot.domain import Lane
from bot.turns.endpoints import ModelEndpoint, format_consent_data
from tests.support import attachment_files
from tests.support.turn_harness import ScriptedModel
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

HOST = "models.example"
YES = "Yes, text only"
ALL = "Yes, everything"
NO = "No"


def build_endpoint(url: str) -> ModelEndpoint:
    return ModelEndpoint("fallback", url, ScriptedModel(), lambda: "gemma")


OUTSIDE = build_endpoint(f"https://{HOST}/v1")
INSIDE = build_endpoint("http://spark:8001/v1")


async def open_harness(database: Database, second: ModelEndpoint | None) -> UpdateHarness:
    harness = UpdateHarness(database, fallback_endpoint=second)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA)
    return harness


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    return await open_harness(database, OUTSIDE)


async def load_consent(harness: UpdateHarness, chat: int = ANNA) -> Consent:
    async with harness.database.read_transaction() as tx:
        return await chat_settings.load_consent(tx, chat, HOST)


def read_redrawn(harness: UpdateHarness) -> str:
    text: str = harness.bot.calls_of("edit_message_text")[-1]["given"][0]
    return text


async def test_without_a_second_endpoint_deep_says_so_and_is_in_no_menu(database: Database):
    harness = await open_harness(database, None)
    for command in ("/deep think of it", "/consent"):
        assert [message.text for message in await harness.send_text(command)] == [
            "A second model isn't set up here."
        ]
    assert harness.turns.requests == []
    (help_message,) = await harness.send_text("/help")
    assert "/deep" not in help_message.text
    assert "deep" not in dict(registry.build_menu("member", "en"))
    assert "deep" in dict(registry.build_menu("member", "en", has_fallback=True))


async def test_help_lists_deep_where_there_is_a_second_endpoint(harness: UpdateHarness):
    (help_message,) = await harness.send_text("/help")
    assert "/deep – " in help_message.text
    assert "/consent – " in help_message.text


async def test_deep_alone_says_how_it_is_used(harness: UpdateHarness):
    (sent,) = await harness.send_text("/deep")
    assert "/deep compare" in sent.text
    assert harness.turns.requests == []


async def test_deep_on_the_own_network_is_a_turn_without_the_command(database: Database):
    harness = await open_harness(database, INSIDE)
    assert await harness.send_text("/deep@canvas_bot  why is\nthe sky blue?") == []
    (request,) = harness.turns.requests
    assert (request.texts, request.deep) == (("why is\nthe sky blue?",), True)
    await harness.send_text("and now?")
    assert not harness.turns.requests[1].deep


async def test_what_a_deep_replies_to_is_quoted(database: Database):
    harness = await open_harness(database, INSIDE)
    earlier = harness.build_message(person=BOB, text="Whales are fish.")["message"]
    await harness.send_text("/deep is it true?", reply_to_message=earlier)
    (text,) = harness.turns.requests[0].texts
    assert "Whales are fish." in text
    assert text.endswith("\nis it true?")


async def test_deep_keeps_its_place_among_other_messages(database: Database):
    harness = await open_harness(database, INSIDE)
    await harness.store_updates(*(harness.build_message(text=text) for text in ("one", "/deep two", "three")))
    for _ in range(3):
        await harness.handle_claimed()
    assert [request.texts for request in harness.turns.requests] == [("one",), ("two",), ("three",)]


async def test_a_long_paste_behind_deep_is_one_message(database: Database):
    harness = await open_harness(database, INSIDE)
    await harness.store_updates(
        harness.build_message(text="/deep " + "a" * 4050), harness.build_message(text="the rest")
    )
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    assert [len(text) for text in request.texts] == [4050, 8]


async def test_a_caption_can_ask_for_the_second_model_and_its_album_comes_along(database: Database):
    harness = await open_harness(database, INSIDE)
    harness.downloader.files = {"p": attachment_files.make_image()}
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await harness.store_updates(
        harness.build_message(photo=photo, caption="/deep which one?", media_group_id="m")
    )
    await harness.store_updates(harness.build_message(photo=photo, media_group_id="m"))
    harness.now += 2
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    assert request.deep
    assert len(request.items) == 2
    assert request.texts == ("which one?",)
    await harness.store_updates(harness.build_message(photo=photo, caption="/new"))
    await harness.handle_claimed()
    assert not harness.turns.requests[1].deep


async def test_a_caption_waits_for_consent_like_any_text(harness: UpdateHarness):
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await harness.store_updates(harness.build_message(photo=photo, caption="/deep what is it?"))
    (question,) = await harness.handle_claimed()
    await harness.tap(question.buttons[ALL])
    await harness.handle_claimed()
    assert harness.turns.requests[0].deep


async def test_a_stop_drops_a_deep_that_waits(database: Database):
    harness = await open_harness(database, INSIDE)
    await harness.store_updates(harness.build_message(text="/deep " + "a" * 4050))
    (sent,) = await harness.send_text("/stop")
    assert sent.text == "I won't answer the message that was waiting."
    assert harness.turns.requests == []


async def test_deep_messages_count_among_those_that_wait(harness: UpdateHarness):
    messages = await harness.send_text("/deep let me in", person=BOB)
    (stranger,) = [message for message in messages if message.lane == str(BOB)]
    assert "code" in stranger.text.lower()
    assert harness.turns.requests == []


async def test_the_chat_is_asked_by_the_name_of_the_host_and_nothing_runs_until_then(harness: UpdateHarness):
    (question,) = await harness.send_text("/deep why?")
    assert HOST in question.text
    assert list(question.buttons) == [YES, ALL, NO]
    assert all(len(data.encode()) <= 64 for data in question.buttons.values())
    assert harness.turns.requests == []
    assert await load_consent(harness) == Consent()


@pytest.mark.parametrize(("label", "kinds"), [(YES, {"text"}), (ALL, set(CONTENT_KINDS))])
async def test_yes_runs_what_waited_once(
    harness: UpdateHarness, label: str, kinds: set[chat_settings.ContentKind]
):
    (question,) = await harness.send_text("/deep why?")
    toast, _ = await harness.tap(question.buttons[label])
    assert toast == "Allowed."
    assert harness.commits.inbox_count == 1
    assert harness.turns.woken_lanes == [Lane(ANNA)]
    assert (await load_consent(harness)).kinds == frozenset(kinds)
    assert f"May be sent to {HOST}:" in read_redrawn(harness)
    await harness.handle_claimed()
    assert [request.texts for request in harness.turns.requests] == [("why?",)]


async def test_a_second_tap_runs_nothing_twice(harness: UpdateHarness):
    (question,) = await harness.send_text("/deep why?")
    for label in (YES, ALL, YES):
        await harness.tap(question.buttons[label])
        await harness.tap(question.buttons[label])
        await harness.handle_claimed()
    assert len(harness.turns.requests) == 1


async def test_a_long_paste_comes_back_whole(harness: UpdateHarness):
    await harness.store_updates(
        harness.build_message(text="/deep " + "a" * 4050), harness.build_message(text="the rest")
    )
    (question,) = await harness.handle_claimed()
    await harness.tap(question.buttons[YES])
    await harness.handle_claimed()
    (request,) = harness.turns.requests
    assert request.texts[1] == "the rest"


async def test_each_deep_that_waits_has_its_own_button(harness: UpdateHarness):
    (first,) = await harness.send_text("/deep one")
    harness.now += 1
    (second,) = await harness.send_text("/deep two")
    await harness.tap(second.buttons[YES])
    await harness.handle_claimed()
    assert [request.texts for request in harness.turns.requests] == [("two",)]
    await harness.tap(first.buttons[YES])
    await harness.handle_claimed()
    assert [request.texts for request in harness.turns.requests] == [("two",), ("one",)]


async def test_no_is_remembered_and_says_what_is_left(harness: UpdateHarness):
    (question,) = await harness.send_text("/deep why?")
    toast, _ = await harness.tap(question.buttons[NO])
    assert toast == "Nothing is sent there."
    assert "without /deep" in read_redrawn(harness)
    await harness.handle_claimed()
    assert harness.turns.requests == []
    (sent,) = await harness.send_text("/deep why?")
    assert "doesn't allow" in sent.text
    assert "/consent" in sent.text
    assert sent.buttons == {}


async def test_a_turn_that_has_begun_continues_though_consent_was_withdrawn_or_the_endpoint_is_gone(
    harness: UpdateHarness,
):
    (item,) = await harness.store_updates(harness.build_message(text="/deep why?"))
    await harness.store_answered_turn("why?", item=item)
    await harness.handle_claimed()
    assert len(harness.turns.requests) == 1


async def test_a_button_of_another_chat_or_host_or_a_forged_one_does_nothing(harness: UpdateHarness):
    (question,) = await harness.send_text("/deep why?")
    data = question.buttons[YES]
    await harness.let_in(BOB)
    await harness.tap(data, person=BOB)
    await harness.handle_claimed()
    assert harness.turns.requests == []
    assert not (await load_consent(harness)).is_given
    elsewhere = format_consent_data("text", build_endpoint("https://other.example/v1"))
    for forged in (
        elsewhere,
        "consent:",
        "consent:text",
        "consent:text:x:y",
        data.replace("text", "all:1"),
        "consent",
    ):
        toast, _ = await harness.tap(forged)
        assert toast == "This button is too old."
    assert not (await load_consent(harness)).is_given


async def test_a_second_tap_on_a_kind_does_not_undo_the_first(harness: UpdateHarness):
    (page,) = await harness.send_text("/consent")
    await harness.tap(page.buttons[ALL])
    (page,) = await harness.send_text("/consent")
    for _ in range(2):
        assert (await harness.tap(page.buttons["Don't send files"]))[0] == "Changed."
        assert (await load_consent(harness)).kinds == frozenset(CONTENT_KINDS) - {"files"}
    (page,) = await harness.send_text("/consent")
    for _ in range(2):
        await harness.tap(page.buttons["Also send files"])
        assert (await load_consent(harness)).kinds == frozenset(CONTENT_KINDS)
    data = page.buttons["Don't send notes"]
    for forged in (data.replace("notes", "text"), data.replace("off", "maybe"), data.replace(":off", "")):
        assert (await harness.tap(forged))[0] == "This button is too old."


async def test_consent_shows_what_may_go_and_changes_it_kind_by_kind(harness: UpdateHarness):
    (page,) = await harness.send_text("/consent")
    assert page.text == f"Nothing from this chat is sent to {HOST}."
    assert list(page.buttons) == [YES, ALL, NO]
    await harness.tap(page.buttons[YES])
    assert read_redrawn(harness) == (
        f"May be sent to {HOST}: messages. Stay here: notes, files, images. /consent changes that."
    )
    (page,) = await harness.send_text("/consent")
    assert list(page.buttons) == [
        "Also send notes",
        "Also send files",
        "Also send images",
        "Send nothing there",
    ]
    toast, _ = await harness.tap(page.buttons["Also send images"])
    assert toast == "Changed."
    assert (await load_consent(harness)).kinds == frozenset({"text", "images"})
    (page,) = await harness.send_text("/consent")
    await harness.tap(page.buttons["Don't send images"])
    assert (await load_consent(harness)).kinds == frozenset({"text"})
    await harness.tap(page.buttons["Send nothing there"])
    assert (await load_consent(harness)).kinds == frozenset()
    toast, _ = await harness.tap(page.buttons["Also send notes"])
    assert toast == "This button is too old."


async def test_consent_for_everything_names_nothing_that_stays(harness: UpdateHarness):
    (page,) = await harness.send_text("/consent")
    await harness.tap(page.buttons[ALL])
    assert read_redrawn(harness).startswith(f"May be sent to {HOST}: messages, notes, files, images. ")


async def test_on_the_own_network_no_consent_is_needed(database: Database):
    harness = await open_harness(database, INSIDE)
    (page,) = await harness.send_text("/consent")
    assert "spark" in page.text
    assert page.buttons == {}


async def test_the_admin_menu_has_deep_too():
    assert {"deep", "people"} <= set(dict(registry.build_menu("admin", "en", has_fallback=True)))
    assert "consent" not in dict(registry.build_menu("admin", "en", has_fallback=True))
