"""/deep and /consent: the chat is asked before anything leaves the house, each message is answered once."""

import pytest

from bot.db.conversations import chat_settings as chats
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent
from bot.db.engine import Database
from bot.telegram.commands import registry as commands
from bot.turns.endpoints import ModelEndpoint, format_consent_data
from tests.support import attachment_files as made
from tests.support.turn_harness import ScriptedModel
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

HOST = "models.example"
YES, ALL, NO = "Yes, text only", "Also notes, files, images", "No"


def build_endpoint(url: str) -> ModelEndpoint:
    return ModelEndpoint("fallback", url, ScriptedModel(), lambda: "gemma")


OUTSIDE, INSIDE = build_endpoint(f"https://{HOST}/v1"), build_endpoint("http://spark:8001/v1")


async def open_harness(database: Database, second: ModelEndpoint | None) -> UpdateHarness:
    front = UpdateHarness(database, fallback_endpoint=second)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    return await open_harness(database, OUTSIDE)


async def load_consent(front: UpdateHarness, chat: int = ANNA) -> Consent:
    async with front.database.read_transaction() as tx:
        return await chats.load_consent(tx, chat, HOST)


def read_redrawn(front: UpdateHarness) -> str:
    text: str = front.bot.calls_of("edit_message_text")[-1]["given"][0]
    return text


async def test_without_a_second_endpoint_deep_says_so_and_is_in_no_menu(database: Database):
    front = await open_harness(database, None)
    for command in ("/deep think of it", "/consent"):
        assert [one.text for one in await front.send_text(command)] == ["No second model is set up here."]
    assert front.turns.requests == []
    (shown,) = await front.send_text("/help")
    assert "/deep" not in shown.text
    assert "deep" not in dict(commands.build_menu("member"))
    assert "deep" in dict(commands.build_menu("member", has_fallback=True))


async def test_with_one_help_tells_of_it(front: UpdateHarness):
    (shown,) = await front.send_text("/help")
    assert "/deep – " in shown.text
    assert "/consent – " in shown.text


async def test_deep_alone_says_how_it_is_used(front: UpdateHarness):
    (sent,) = await front.send_text("/deep")
    assert "/deep compare" in sent.text
    assert front.turns.requests == []


async def test_deep_on_the_own_network_is_a_turn_without_the_command(database: Database):
    front = await open_harness(database, INSIDE)
    assert await front.send_text("/deep@canvas_bot  why is\nthe sky blue?") == []
    (ask,) = front.turns.requests
    assert (ask.texts, ask.deep) == (("why is\nthe sky blue?",), True)
    await front.send_text("and now?")
    assert not front.turns.requests[1].deep


async def test_what_a_deep_replies_to_is_quoted(database: Database):
    front = await open_harness(database, INSIDE)
    earlier = front.build_message(person=BOB, text="Whales are fish.")["message"]
    await front.send_text("/deep is it true?", reply_to_message=earlier)
    (text,) = front.turns.requests[0].texts
    assert "Whales are fish." in text
    assert text.endswith("\nis it true?")


async def test_deep_keeps_its_place_among_other_messages(database: Database):
    front = await open_harness(database, INSIDE)
    await front.store_updates(*(front.build_message(text=text) for text in ("one", "/deep two", "three")))
    for _ in range(3):
        await front.handle_claimed()
    assert [ask.texts for ask in front.turns.requests] == [("one",), ("two",), ("three",)]


async def test_a_long_paste_behind_deep_is_one_message(database: Database):
    front = await open_harness(database, INSIDE)
    await front.store_updates(
        front.build_message(text="/deep " + "a" * 4050), front.build_message(text="the rest")
    )
    await front.handle_claimed()
    (ask,) = front.turns.requests
    assert [len(text) for text in ask.texts] == [4050, 8]


async def test_a_caption_can_ask_for_the_second_model_and_its_album_comes_along(database: Database):
    front = await open_harness(database, INSIDE)
    front.downloader.files = {"p": made.make_image()}
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await front.store_updates(
        front.build_message(photo=photo, caption="/deep which one?", media_group_id="m")
    )
    await front.store_updates(front.build_message(photo=photo, media_group_id="m"))
    front.now += 2
    await front.handle_claimed()
    (ask,) = front.turns.requests
    assert ask.deep
    assert len(ask.items) == 2
    assert ask.texts == ("which one?",)
    await front.store_updates(front.build_message(photo=photo, caption="/new"))
    await front.handle_claimed()
    assert not front.turns.requests[1].deep


async def test_a_caption_waits_for_consent_like_any_text(front: UpdateHarness):
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await front.store_updates(front.build_message(photo=photo, caption="/deep what is it?"))
    (question,) = await front.handle_claimed()
    await front.tap(question.buttons[ALL])
    await front.handle_claimed()
    assert front.turns.requests[0].deep


async def test_a_stop_drops_a_deep_that_waits(database: Database):
    front = await open_harness(database, INSIDE)
    await front.store_updates(front.build_message(text="/deep " + "a" * 4050))
    (sent,) = await front.send_text("/stop")
    assert sent.text == "Dropped one message."
    assert front.turns.requests == []


async def test_deep_messages_count_among_those_that_wait(front: UpdateHarness):
    (stranger,) = await front.send_text("/deep let me in", person=BOB)
    assert "code" in stranger.text.lower()
    assert front.turns.requests == []


async def test_the_chat_is_asked_by_the_name_of_the_host_and_nothing_runs_until_then(front: UpdateHarness):
    (question,) = await front.send_text("/deep why?")
    assert HOST in question.text
    assert list(question.buttons) == [YES, ALL, NO]
    assert all(len(data.encode()) <= 64 for data in question.buttons.values())
    assert front.turns.requests == []
    assert await load_consent(front) == Consent(was_asked=True, kinds=None)


@pytest.mark.parametrize(("label", "kinds"), [(YES, {"text"}), (ALL, set(CONTENT_KINDS))])
async def test_yes_runs_what_waited_once(front: UpdateHarness, label: str, kinds: set[chats.ContentKind]):
    (question,) = await front.send_text("/deep why?")
    toast, _ = await front.tap(question.buttons[label])
    assert toast == "Agreed."
    assert front.worker_wakes == 1
    assert front.turns.woken_lanes == [front.woken_lanes[0]]
    assert (await load_consent(front)).kinds == frozenset(kinds)
    assert f"may go to {HOST}" in read_redrawn(front)
    await front.handle_claimed()
    assert [ask.texts for ask in front.turns.requests] == [("why?",)]


async def test_a_second_tap_runs_nothing_twice(front: UpdateHarness):
    (question,) = await front.send_text("/deep why?")
    for label in (YES, ALL, YES):
        await front.tap(question.buttons[label])
        await front.tap(question.buttons[label])
        await front.handle_claimed()
    assert len(front.turns.requests) == 1


async def test_a_long_paste_comes_back_whole(front: UpdateHarness):
    await front.store_updates(
        front.build_message(text="/deep " + "a" * 4050), front.build_message(text="the rest")
    )
    (question,) = await front.handle_claimed()
    await front.tap(question.buttons[YES])
    await front.handle_claimed()
    (ask,) = front.turns.requests
    assert ask.texts[1] == "the rest"


async def test_each_deep_that_waits_has_its_own_button(front: UpdateHarness):
    (first,) = await front.send_text("/deep one")
    front.now += 1
    (second,) = await front.send_text("/deep two")
    await front.tap(second.buttons[YES])
    await front.handle_claimed()
    assert [ask.texts for ask in front.turns.requests] == [("two",)]
    await front.tap(first.buttons[YES])
    await front.handle_claimed()
    assert [ask.texts for ask in front.turns.requests] == [("two",), ("one",)]


async def test_no_is_remembered_and_says_what_is_left(front: UpdateHarness):
    (question,) = await front.send_text("/deep why?")
    toast, _ = await front.tap(question.buttons[NO])
    assert toast == "Nothing goes there."
    assert "without /deep" in read_redrawn(front)
    await front.handle_claimed()
    assert front.turns.requests == []
    (sent,) = await front.send_text("/deep why?")
    assert "said no" in sent.text
    assert "/consent" in sent.text
    assert sent.buttons == {}


async def test_a_turn_that_has_begun_goes_on_though_consent_was_withdrawn_or_the_endpoint_is_gone(
    front: UpdateHarness,
):
    (item,) = await front.store_updates(front.build_message(text="/deep why?"))
    await front.store_answered_turn("why?", item=item)
    await front.handle_claimed()
    assert len(front.turns.requests) == 1


async def test_a_button_of_another_chat_or_host_or_a_forged_one_does_nothing(front: UpdateHarness):
    (question,) = await front.send_text("/deep why?")
    data = question.buttons[YES]
    await front.let_in(BOB)
    await front.tap(data, person=BOB)
    await front.handle_claimed()
    assert front.turns.requests == []
    assert not (await load_consent(front)).is_given
    elsewhere = format_consent_data("text", build_endpoint("https://other.example/v1"))
    for forged in (
        elsewhere,
        "consent:",
        "consent:text",
        "consent:text:x:y",
        data.replace("text", "all:1"),
        "consent",
    ):
        toast, _ = await front.tap(forged)
        assert toast == "This button is too old."
    assert not (await load_consent(front)).is_given


async def test_consent_shows_what_may_go_and_changes_it_kind_by_kind(front: UpdateHarness):
    (page,) = await front.send_text("/consent")
    assert page.text == f"Nothing of this chat goes to {HOST}."
    assert list(page.buttons) == [YES, ALL, NO]
    await front.tap(page.buttons[YES])
    assert read_redrawn(front) == (
        f"The text of this chat may go to {HOST}; notes, files and images stay here. /consent changes that."
    )
    (page,) = await front.send_text("/consent")
    assert list(page.buttons) == [
        "Also send notes",
        "Also send files",
        "Also send images",
        "Send nothing there",
    ]
    toast, _ = await front.tap(page.buttons["Also send images"])
    assert toast == "Changed."
    assert (await load_consent(front)).kinds == frozenset({"text", "images"})
    (page,) = await front.send_text("/consent")
    await front.tap(page.buttons["Keep back images"])
    assert (await load_consent(front)).kinds == frozenset({"text"})
    await front.tap(page.buttons["Send nothing there"])
    assert (await load_consent(front)).kinds == frozenset()
    toast, _ = await front.tap(page.buttons["Also send notes"])
    assert toast == "This button is too old."


async def test_all_is_told_without_what_stays(front: UpdateHarness):
    (page,) = await front.send_text("/consent")
    await front.tap(page.buttons[ALL])
    assert read_redrawn(front).startswith(
        f"The text, notes, files and images of this chat may go to {HOST}. "
    )


async def test_on_the_own_network_no_consent_is_needed(database: Database):
    front = await open_harness(database, INSIDE)
    (page,) = await front.send_text("/consent")
    assert "spark" in page.text
    assert page.buttons == {}


async def test_the_admin_menu_has_deep_too():
    assert {"deep", "people"} <= set(dict(commands.build_menu("admin", has_fallback=True)))
    assert "consent" not in dict(commands.build_menu("admin", has_fallback=True))
