"""/deep and /consent: the chat is asked before anything leaves the house, each message is answered once."""

import pytest

from bot.db.conversations import chat_settings as chats
from bot.db.conversations.chat_settings import KINDS, Consent
from bot.db.engine import Database
from bot.telegram.commands import registry as commands
from bot.turns.endpoints import Endpoint, button
from tests.support import attachment_files as made
from tests.support.turn_harness import Model
from tests.support.update_harness import ADMIN, ANNA, BOB, Front

HOST = "models.example"
YES, ALL, NO = "Yes, text only", "Also notes, files, images", "No"


def endpoint(url: str) -> Endpoint:
    return Endpoint("fallback", url, Model(), lambda: "gemma")


OUTSIDE, INSIDE = endpoint(f"https://{HOST}/v1"), endpoint("http://spark:8001/v1")


async def opened(database: Database, second: Endpoint | None) -> Front:
    front = Front(database, second=second)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    return front


@pytest.fixture
async def front(database: Database) -> Front:
    return await opened(database, OUTSIDE)


async def agreed(front: Front, chat: int = ANNA) -> Consent:
    async with front.database.reading() as tx:
        return await chats.consent(tx, chat, HOST)


def redrawn(front: Front) -> str:
    text: str = front.bot.of("edit_message_text")[-1]["given"][0]
    return text


async def test_without_a_second_endpoint_deep_says_so_and_is_in_no_menu(database: Database):
    front = await opened(database, None)
    for command in ("/deep think of it", "/consent"):
        assert [one.text for one in await front.write(command)] == ["No second model is set up here."]
    assert front.turns.asks == []
    (shown,) = await front.write("/help")
    assert "/deep" not in shown.text
    assert "deep" not in dict(commands.menu("member"))
    assert "deep" in dict(commands.menu("member", second=True))


async def test_with_one_help_tells_of_it(front: Front):
    (shown,) = await front.write("/help")
    assert "/deep – " in shown.text
    assert "/consent – " in shown.text


async def test_deep_alone_says_how_it_is_used(front: Front):
    (sent,) = await front.write("/deep")
    assert "/deep compare" in sent.text
    assert front.turns.asks == []


async def test_deep_on_the_own_network_is_a_turn_without_the_command(database: Database):
    front = await opened(database, INSIDE)
    assert await front.write("/deep@canvas_bot  why is\nthe sky blue?") == []
    (ask,) = front.turns.asks
    assert (ask.texts, ask.deep) == (("why is\nthe sky blue?",), True)
    await front.write("and now?")
    assert not front.turns.asks[1].deep


async def test_what_a_deep_replies_to_is_quoted(database: Database):
    front = await opened(database, INSIDE)
    earlier = front.message(person=BOB, text="Whales are fish.")["message"]
    await front.write("/deep is it true?", reply_to_message=earlier)
    (text,) = front.turns.asks[0].texts
    assert "Whales are fish." in text
    assert text.endswith("\nis it true?")


async def test_deep_keeps_its_place_among_other_messages(database: Database):
    front = await opened(database, INSIDE)
    await front.store(*(front.message(text=text) for text in ("one", "/deep two", "three")))
    for _ in range(3):
        await front.handle()
    assert [ask.texts for ask in front.turns.asks] == [("one",), ("two",), ("three",)]


async def test_a_long_paste_behind_deep_is_one_message(database: Database):
    front = await opened(database, INSIDE)
    await front.store(front.message(text="/deep " + "a" * 4050), front.message(text="the rest"))
    await front.handle()
    (ask,) = front.turns.asks
    assert [len(text) for text in ask.texts] == [4050, 8]


async def test_a_caption_can_ask_for_the_second_model_and_its_album_comes_along(database: Database):
    front = await opened(database, INSIDE)
    front.files.kept = {"p": made.image()}
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await front.store(front.message(photo=photo, caption="/deep which one?", media_group_id="m"))
    await front.store(front.message(photo=photo, media_group_id="m"))
    front.now += 2
    await front.handle()
    (ask,) = front.turns.asks
    assert ask.deep
    assert len(ask.items) == 2
    assert ask.texts == ("which one?",)
    await front.store(front.message(photo=photo, caption="/new"))
    await front.handle()
    assert not front.turns.asks[1].deep


async def test_a_caption_waits_for_consent_like_any_text(front: Front):
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 90, "height": 60, "file_size": 3}]
    await front.store(front.message(photo=photo, caption="/deep what is it?"))
    (question,) = await front.handle()
    await front.tap(question.buttons[ALL])
    await front.handle()
    assert front.turns.asks[0].deep


async def test_a_stop_drops_a_deep_that_waits(database: Database):
    front = await opened(database, INSIDE)
    await front.store(front.message(text="/deep " + "a" * 4050))
    (sent,) = await front.write("/stop")
    assert sent.text == "Dropped one message."
    assert front.turns.asks == []


async def test_deep_messages_count_among_those_that_wait(front: Front):
    (stranger,) = await front.write("/deep let me in", person=BOB)
    assert "code" in stranger.text.lower()
    assert front.turns.asks == []


async def test_the_chat_is_asked_by_the_name_of_the_host_and_nothing_runs_until_then(front: Front):
    (question,) = await front.write("/deep why?")
    assert HOST in question.text
    assert list(question.buttons) == [YES, ALL, NO]
    assert all(len(data.encode()) <= 64 for data in question.buttons.values())
    assert front.turns.asks == []
    assert await agreed(front) == Consent(asked=True, kinds=None)


@pytest.mark.parametrize(("label", "kinds"), [(YES, {"text"}), (ALL, set(KINDS))])
async def test_yes_runs_what_waited_once(front: Front, label: str, kinds: set[chats.Kind]):
    (question,) = await front.write("/deep why?")
    toast, _ = await front.tap(question.buttons[label])
    assert toast == "Agreed."
    assert front.worker_wakes == 1
    assert front.turns.told == [front.woken[0]]
    assert (await agreed(front)).kinds == frozenset(kinds)
    assert f"may go to {HOST}" in redrawn(front)
    await front.handle()
    assert [ask.texts for ask in front.turns.asks] == [("why?",)]


async def test_a_second_tap_runs_nothing_twice(front: Front):
    (question,) = await front.write("/deep why?")
    for label in (YES, ALL, YES):
        await front.tap(question.buttons[label])
        await front.tap(question.buttons[label])
        await front.handle()
    assert len(front.turns.asks) == 1


async def test_a_long_paste_comes_back_whole(front: Front):
    await front.store(front.message(text="/deep " + "a" * 4050), front.message(text="the rest"))
    (question,) = await front.handle()
    await front.tap(question.buttons[YES])
    await front.handle()
    (ask,) = front.turns.asks
    assert ask.texts[1] == "the rest"


async def test_each_deep_that_waits_has_its_own_button(front: Front):
    (first,) = await front.write("/deep one")
    front.now += 1
    (second,) = await front.write("/deep two")
    await front.tap(second.buttons[YES])
    await front.handle()
    assert [ask.texts for ask in front.turns.asks] == [("two",)]
    await front.tap(first.buttons[YES])
    await front.handle()
    assert [ask.texts for ask in front.turns.asks] == [("two",), ("one",)]


async def test_no_is_remembered_and_says_what_is_left(front: Front):
    (question,) = await front.write("/deep why?")
    toast, _ = await front.tap(question.buttons[NO])
    assert toast == "Nothing goes there."
    assert "without /deep" in redrawn(front)
    await front.handle()
    assert front.turns.asks == []
    (sent,) = await front.write("/deep why?")
    assert "said no" in sent.text
    assert "/consent" in sent.text
    assert sent.buttons == {}


async def test_a_turn_that_has_begun_goes_on_though_consent_was_withdrawn_or_the_endpoint_is_gone(
    front: Front,
):
    (item,) = await front.store(front.message(text="/deep why?"))
    await front.answered("why?", item=item)
    await front.handle()
    assert len(front.turns.asks) == 1


async def test_a_button_of_another_chat_or_host_or_a_forged_one_does_nothing(front: Front):
    (question,) = await front.write("/deep why?")
    data = question.buttons[YES]
    await front.let_in(BOB)
    await front.tap(data, person=BOB)
    await front.handle()
    assert front.turns.asks == []
    assert not (await agreed(front)).given
    elsewhere = button("text", endpoint("https://other.example/v1"))
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
    assert not (await agreed(front)).given


async def test_consent_shows_what_may_go_and_changes_it_kind_by_kind(front: Front):
    (page,) = await front.write("/consent")
    assert page.text == f"Nothing of this chat goes to {HOST}."
    assert list(page.buttons) == [YES, ALL, NO]
    await front.tap(page.buttons[YES])
    assert redrawn(front) == (
        f"The text of this chat may go to {HOST}; notes, files and images stay here. /consent changes that."
    )
    (page,) = await front.write("/consent")
    assert list(page.buttons) == [
        "Also send notes",
        "Also send files",
        "Also send images",
        "Send nothing there",
    ]
    toast, _ = await front.tap(page.buttons["Also send images"])
    assert toast == "Changed."
    assert (await agreed(front)).kinds == frozenset({"text", "images"})
    (page,) = await front.write("/consent")
    await front.tap(page.buttons["Keep back images"])
    assert (await agreed(front)).kinds == frozenset({"text"})
    await front.tap(page.buttons["Send nothing there"])
    assert (await agreed(front)).kinds == frozenset()
    toast, _ = await front.tap(page.buttons["Also send notes"])
    assert toast == "This button is too old."


async def test_all_is_told_without_what_stays(front: Front):
    (page,) = await front.write("/consent")
    await front.tap(page.buttons[ALL])
    assert redrawn(front).startswith(f"The text, notes, files and images of this chat may go to {HOST}. ")


async def test_on_the_own_network_no_consent_is_needed(database: Database):
    front = await opened(database, INSIDE)
    (page,) = await front.write("/consent")
    assert "spark" in page.text
    assert page.buttons == {}


async def test_the_admin_menu_has_deep_too():
    assert {"deep", "people"} <= set(dict(commands.menu("admin", second=True)))
    assert "consent" not in dict(commands.menu("admin", second=True))
