"""Two endpoints: where a turn is answered, what goes there, and who signs; through the whole house over loopback."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select

from bot import asking, endpoints
from bot.db import turns as stored
from bot.db.engine import Database, connected
from bot.db.tables import lanes, model_calls, tool_calls, turns
from bot.db.turns import NewTurn
from bot.domain import Message
from bot.serving import serve
from bot.sim.botapi_chats import ChatMessage
from bot.sim.endpoint import ChatRequest, Endpoint, Profile, call_text
from bot.way import Place, Way
from tests.attachments import made
from tests.house import ADMIN, World, open_house
from tests.turning import LANE, Desk, Model, said

MODEL = "gemma-4-31b-it"
UNLESS_DOWN = "the first endpoint answers unless it is down"
SIGNED = f"— written by {MODEL}"
HOST = "127.1"  # how resolvers let one write 127.0.0.1, and no address of the own network to who judges by the letter
NOTICE = re.compile(r"About the |The (second )?model endpoint (is not answering:|refused a request:|answers again)")
YES, ALL, NO = "Yes, text only", "Also notes, files, images", "No"


@dataclass
class Two:
    """A house and its second endpoint."""

    house: World
    second: Endpoint

    @property
    def first(self) -> Endpoint:
        return self.house.endpoint

    def said(self) -> list[str]:
        """What the bot has in Ann's chat for good, but for the admins' notices."""
        messages = self.house.api.chat(ADMIN).from_bot
        return [one.text for one in messages if "⏹ Stop" not in labels(one) and not NOTICE.match(one.text)]

    async def ask(self, text: str, count: int = 1) -> str:
        """Send a text; the newest of the bot's messages once there are so many that stand."""
        self.house.ann.send(text)
        return await self.answered(count)

    async def answered(self, count: int) -> str:
        await self.house.api.until(lambda: len(self.said()) >= count)
        return self.said()[-1]

    async def question(self) -> ChatMessage:
        """The message that asks for consent, once it is there."""
        return await self.message_with(NO)

    async def message_with(self, label: str) -> ChatMessage:
        """The newest message that has this button, once it is there."""

        def found() -> list[ChatMessage]:
            return [one for one in self.house.api.chat(ADMIN).from_bot if label in labels(one)]

        await self.house.api.until(found)
        return found()[-1]

    def tap(self, message: ChatMessage, label: str) -> None:
        self.house.ann.tap(message, label)

    async def rows(self, table: Table, *names: str) -> list[tuple[Any, ...]]:
        async with connected(self.house.settings.database_url) as database, database.reading() as tx:
            query = select(*(table.c[name] for name in names)).order_by(table.primary_key.columns.values()[0])
            return [tuple(row) for row in await tx.execute(query)]

    async def calls(self) -> list[tuple[str, str, str | None]]:
        """Of each model call: where it went, what came of it, why it was made again."""
        where = {self.house.settings.model_url: "main", self.house.settings.fallback_url: "fallback"}
        found = await self.rows(model_calls, "endpoint", "outcome", "again")
        return [(where[endpoint], outcome, again) for endpoint, outcome, again in found]

    def sent(self) -> str:
        """All that ever reached the second endpoint."""
        return json.dumps([request.body for request in self.second.requests], ensure_ascii=False)


def labels(message: ChatMessage) -> list[str]:
    return [button["text"] for button in message.buttons]


@contextlib.asynccontextmanager
async def two(
    tmp_path: Path, first: Endpoint | None = None, *, outside: bool = False, **settings: Any
) -> AsyncIterator[Two]:
    second = Endpoint(profile=Profile.hosted_api(), model=MODEL)
    async with serve(second.app) as url:
        address = url.replace("127.0.0.1", HOST) if outside else url
        async with open_house(
            tmp_path, first, fallback_url=f"{address}/v1", warm_up="off", thinking_read="off", **settings
        ) as house:
            yield Two(house, second)


async def test_the_first_answers_while_it_can_and_signs_nothing(tmp_path: Path):
    async with two(tmp_path) as both:
        assert await both.ask("@@say:here@@") == "here"
        assert both.second.requests == []
    assert await both.rows(turns, "endpoint", "endpoint_why") == [("main", UNLESS_DOWN)]


async def test_the_first_is_down_the_second_answers_and_signs_and_the_next_turn_is_the_firsts_again(tmp_path: Path):
    async with two(tmp_path) as both:
        both.first.fault("busy", times=None)
        assert await both.ask("@@say:here@@") == f"here\n\n{SIGNED}"
        both.first.heal()
        assert await both.ask("@@say:back@@", 2) == "back"
        assert MODEL not in json.dumps(both.first.requests[-1].body)
    assert await both.calls() == [
        ("main", "failed", None),
        ("main", "failed", "away"),
        ("fallback", "ok", "fallback"),
        ("main", "ok", None),
    ]
    assert (await both.rows(model_calls, "model"))[2] == (MODEL,)
    assert await both.rows(turns, "endpoint", "endpoint_why", "ending") == [
        ("fallback", "the first endpoint did not answer", "answered"),
        ("main", UNLESS_DOWN, "answered"),
    ]


async def test_while_the_first_is_known_to_be_away_one_try_tells_that_it_still_is(tmp_path: Path):
    async with two(tmp_path) as both:
        both.first.fault("busy", times=None)
        await both.ask("@@say:here@@")
        assert await both.ask("@@say:again@@", 2) == f"again\n\n{SIGNED}"
    assert (await both.calls())[3:] == [("main", "failed", None), ("fallback", "ok", "fallback")]


async def test_what_refuses_twice_is_left_for_the_second(tmp_path: Path):
    async with two(tmp_path, Endpoint(api_key="right"), model_api_key="wrong") as both:
        assert await both.ask("@@say:here@@") == f"here\n\n{SIGNED}"
    assert await both.calls() == [
        ("main", "failed", None),
        ("main", "failed", "refused"),
        ("fallback", "ok", "fallback"),
    ]


async def test_both_refuse_and_it_is_said(tmp_path: Path):
    async with two(tmp_path, Endpoint(api_key="right"), model_api_key="wrong") as both:
        both.second.fault("unauthorized", times=None)
        assert "refused my request" in await both.ask("@@say:here@@")
    assert [(endpoint, again) for endpoint, _, again in await both.calls()] == [
        ("main", None),
        ("main", "refused"),
        ("fallback", "fallback"),
        ("fallback", "refused"),
    ]


async def test_both_are_down_each_is_tried_until_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "PAUSES", (0.0, 0.0, 5.0))  # the last one alone is longer than the patience
    async with two(tmp_path, model_wait=4.5) as both:
        both.first.fault("busy", times=None)
        both.second.fault("busy", times=None)
        both.house.ann.send("@@say:here@@")
        await both.house.api.until(lambda: any("did not answer" in text for text in both.said()))
        assert not any(SIGNED in text for text in both.said())
    assert [(endpoint, again) for endpoint, _, again in await both.calls()] == [
        ("main", None),
        ("main", "away"),
        ("fallback", "fallback"),
        ("fallback", "away"),
    ]


async def test_a_turn_that_finds_the_second_down_too_comes_back_to_the_first(tmp_path: Path):
    async with two(tmp_path) as both:
        both.first.fault("busy", times=2)
        both.second.fault("busy", times=2)
        assert await both.ask("@@say:here@@") == "here"
    assert [endpoint for endpoint, _, _ in await both.calls()] == ["main", "main", "fallback", "fallback", "main"]
    assert await both.rows(turns, "endpoint", "endpoint_why") == [("main", "the second endpoint did not answer")]


async def test_the_same_turn_goes_on_and_no_tool_runs_again(tmp_path: Path):
    def dies_after_its_first_reply(request: ChatRequest) -> str:
        first.fault("busy", times=None)
        return call_text("calculate", {"expression": "6*7"})

    first = Endpoint(brain=dies_after_its_first_reply)
    async with two(tmp_path, first) as both:
        both.second.brain = lambda request: "It is " + str(request.messages[-1]["content"])
        assert (await both.ask("what is 6*7?")).endswith(SIGNED)
        assert "42" in both.said()[0]
        assert [message["role"] for message in both.second.requests[0].body["messages"]][-3:] == [
            "user",
            "assistant",
            "tool",
        ]
    assert await both.rows(tool_calls, "name", "outcome") == [("calculate", "ok")]
    assert [where for where, _, _ in await both.calls()] == ["main", "main", "main", "fallback"]


async def test_tools_work_at_the_second_too(tmp_path: Path):
    async with two(tmp_path) as both:
        text = '/deep @@tool:calculate {"expression": "6*7"}@@@@say:done@@'
        assert await both.ask(text) == f"done\n\n{SIGNED}"
    assert await both.rows(tool_calls, "name", "outcome", "result") == [("calculate", "ok", "42")]


async def test_deep_is_answered_by_the_second_and_the_next_message_by_the_first(tmp_path: Path):
    async with two(tmp_path) as both:
        assert await both.ask("/deep @@say:far@@") == f"far\n\n{SIGNED}"
        assert both.second.requests[0].body["messages"][-1]["content"].endswith("@@say:far@@")
        assert "/deep" not in both.sent()
        assert await both.ask("@@say:near@@", 2) == "near"
    assert await both.calls() == [("fallback", "ok", None), ("main", "ok", None)]
    assert (await both.rows(turns, "endpoint_why"))[0] == ("/deep asked for it",)


async def test_an_answer_cut_at_the_second_is_signed_and_can_be_continued(tmp_path: Path):
    async with two(tmp_path, model_max_tokens=256) as both:
        text = await both.ask("/deep @@repeat:900 word @@")
        assert text.startswith("word word")
        assert text.endswith(SIGNED)
        assert "Continue" in labels(both.house.api.chat(ADMIN).from_bot[-1])
        assert len(both.second.requests) == 1
        both.tap(both.house.api.chat(ADMIN).from_bot[-1], "Continue")
        assert (await both.answered(2)).endswith(SIGNED)
        assert both.first.requests == []


async def test_what_was_asked_of_the_second_is_retried_there(tmp_path: Path):
    async with two(tmp_path) as both:
        await both.ask("/deep @@say:far@@")
        both.house.ann.send("/retry")
        await both.answered(2)
        both.first.fault("busy", times=2)
        assert (await both.ask("@@say:only now@@", 3)).endswith(SIGNED)
        both.house.ann.send("/retry")
        assert await both.answered(4) == "only now"
    assert [where for where, outcome, _ in await both.calls() if outcome == "ok"] == [
        "fallback",
        "fallback",
        "fallback",
        "main",
    ]


async def test_deep_while_the_second_is_down_is_answered_by_the_first_which_says_so(tmp_path: Path):
    async with two(tmp_path) as both:
        both.second.fault("busy", times=None)
        assert await both.ask("/deep @@say:near@@") == "near\n\n— written by diffusiongemma, not by the second model"
    assert [(where, again) for where, _, again in await both.calls()] == [
        ("fallback", None),
        ("fallback", "away"),
        ("main", "main"),
    ]


async def test_hard_turns_go_to_the_second_where_that_is_wanted(tmp_path: Path):
    async with two(tmp_path, fallback_for="hard", thinking="on") as both:
        assert await both.ask("@@say:deep thought@@") == f"deep thought\n\n{SIGNED}"
    assert await both.calls() == [("fallback", "ok", None)]
    assert await both.rows(turns, "endpoint_why", "thinking") == [("the turn is a hard one", True)]
    assert await both.rows(model_calls, "thinking") == [(False,)]


async def test_easy_turns_do_not(tmp_path: Path):
    async with two(tmp_path, fallback_for="hard", thinking="off") as both:
        assert await both.ask("@@say:hello@@") == "hello"


async def test_outside_the_chat_is_asked_once_and_the_message_waits_until_yes(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.first.fault("busy", times=None)
        both.house.ann.send("@@say:here@@")
        question = await both.question()
        assert HOST in question.text
        assert labels(question) == [YES, ALL, NO]
        await both.house.api.until(lambda: any("With /consent the second" in text for text in both.house.texts()))
        tried = len(both.first.requests)
        await both.first.until(lambda: len(both.first.requests) > tried)
        assert both.second.requests == []
        both.tap(question, YES)
        await both.house.api.until(lambda: f"here\n\n{SIGNED}" in both.said())
        await both.house.api.until(lambda: not any(NO in labels(one) for one in both.house.api.chat(ADMIN).from_bot))
        assert "may go to" in both.said()[0] or "may go to" in both.said()[1]
        assert len(both.second.requests) == 1
        both.house.ann.send("@@say:again@@")
        await both.house.api.until(lambda: f"again\n\n{SIGNED}" in both.said())
    assert await both.rows(lanes, "consent") == [(f"{HOST} text",)]
    assert [where for where, outcome, _ in await both.calls() if outcome == "ok"] == ["fallback", "fallback"]


async def test_after_a_no_the_message_waits_for_the_first_and_nobody_asks_again(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.first.fault("busy", times=None)
        both.house.ann.send("@@say:here@@")
        question = await both.question()
        both.tap(question, NO)
        await both.house.api.until(lambda: any("Nothing of this chat goes" in text for text in both.said()))
        both.first.heal()
        await both.house.api.until(lambda: "here" in both.said())
        both.first.fault("busy", times=3)
        both.house.ann.send("@@say:again@@")
        await both.house.api.until(lambda: "again" in both.said())
        assert both.second.requests == []
        assert not any(NO in labels(one) for one in both.house.api.chat(ADMIN).from_bot)


async def test_a_refusal_waits_for_the_answer_too_and_ends_at_once_after_a_no(tmp_path: Path):
    async with two(tmp_path, Endpoint(api_key="right"), model_api_key="wrong", outside=True) as both:
        both.house.ann.send("@@say:here@@")
        both.tap(await both.question(), NO)
        await both.house.api.until(lambda: any("refused my request" in text for text in both.said()))
        assert both.second.requests == []


async def test_deep_outside_asks_first_and_is_answered_once(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send("/deep @@say:far@@")
        question = await both.question()
        assert both.first.requests == both.second.requests == []
        both.tap(question, YES)
        await both.house.api.until(lambda: f"far\n\n{SIGNED}" in both.said())
        assert await both.ask("@@say:near@@", 3) == "near"
        assert len(both.second.requests) == 1
        assert both.said().count(f"far\n\n{SIGNED}") == 1


async def test_hard_turns_outside_are_answered_here_until_the_chat_agrees(tmp_path: Path):
    async with two(tmp_path, outside=True, fallback_for="hard", thinking="on") as both:
        both.house.ann.send("@@say:one@@")
        question = await both.question()
        await both.house.api.until(lambda: "one" in both.said())
        both.tap(question, YES)
        await both.house.api.until(lambda: any("may go to" in text for text in both.said()))
        both.house.ann.send("@@say:two@@")
        await both.house.api.until(lambda: f"two\n\n{SIGNED}" in both.said())


@pytest.mark.parametrize("label", [YES, ALL])
async def test_notes_and_files_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with two(tmp_path, outside=True) as both:
        await both.ask('@@tool:remember {"note": "the door code is 4711"}@@@@say:noted@@')
        both.house.ann.send("/new")
        await both.answered(2)
        both.house.ann.send(
            "/deep [data: file plan.txt]\nburied treasure\n[end of data]\n@@tool:recall {}@@@@say:done@@"
        )
        both.tap(await both.question(), label)
        await both.house.api.until(lambda: any(text.startswith("done") for text in both.said()))
        signed = next(text for text in both.said() if text.startswith("done"))
        if label == YES:
            assert signed == f"done\n\n{SIGNED}, without your notes and files"
            assert "4711" not in both.sent()
            assert "buried" not in both.sent()
            assert "[a file was left out]" in both.sent()
        else:
            assert signed == f"done\n\n{SIGNED}"
            assert "4711" in both.sent()
            assert "buried treasure" in both.sent()


@pytest.mark.parametrize("label", [YES, ALL])
async def test_images_stay_here_unless_they_are_allowed(tmp_path: Path, label: str):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send_photo("/deep @@say:seen@@", content=made.image(40, 30))
        both.tap(await both.question(), label)
        await both.house.api.until(lambda: any(text.startswith("seen") for text in both.said()))
        signed = next(text for text in both.said() if text.startswith("seen"))
        if label == YES:
            assert signed == f"seen\n\n{SIGNED}, without your images"
            assert "[an image was left out]" in both.sent()
            assert "image_url" not in both.sent()
        else:
            assert signed == f"seen\n\n{SIGNED}"
            assert "data:image/" in both.sent()


async def test_consent_withdrawn_between_two_steps_ends_the_turn_at_the_first(tmp_path: Path):
    async with two(tmp_path, outside=True) as both:
        both.house.ann.send("/consent")
        both.tap(await both.question(), YES)
        await both.house.api.until(lambda: any("may go to" in text for text in both.said()))
        both.second.hold()
        both.house.ann.send('/deep @@tool:calculate {"expression": "6*7"}@@@@say:done@@')
        await both.second.until(lambda: both.second.running == 1)
        both.house.ann.send("/consent")
        both.tap(await both.message_with("Send nothing there"), "Send nothing there")
        await both.house.api.until(lambda: any("Nothing of this chat" in text for text in both.said()))
        both.second.release()
        await both.house.api.until(lambda: any(text.startswith("done") for text in both.said()))
        assert len(both.second.requests) == 1
    assert (await both.rows(turns, "endpoint", "endpoint_why"))[0] == ("main", f"the chat says no to {HOST}")


async def test_a_turn_found_at_a_second_endpoint_that_is_gone_goes_on_at_the_first(database: Database):
    desk = Desk(database, Model([said("here")]))
    ask = await desk.ask("hello")
    async with database.transaction() as tx:
        new = NewTurn(ask.items[0].id, LANE, 7, 1, (), False, "", received_at=0.0)
        opened = await stored.open_turn(tx, new, [ask.items[0].id], [Message("user", "hello")], now=1.0)
        assert opened is not None
        await stored.move(tx, opened.id, "fallback", "/deep asked for it")
    await desk.turns().run(await desk.restarted("hello"))
    assert await desk.answers() == ["here"]
    assert await desk.rows(turns, "endpoint", "endpoint_why") == [("main", "there is no second endpoint any more")]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("gemma-4-31b-it", "gemma-4-31b-it"), ("a_b*c`[d](e)", r"a\_bcde"), ("*", "another model"), ("x" * 99, "x" * 80)],
)
async def test_the_name_of_a_model_is_shown_as_it_is(database: Database, name: str, shown: str):
    first = Desk(database, Model())._places()
    address = endpoints.Endpoint("fallback", "http://spark/v1", Model(), lambda: "gemma")
    way = Way(replace(first, second=Place(address, first.first.asking, continues=False)), LANE)
    way.which = "fallback"
    assert way.signature(name, deep=False) == f"— written by {shown}"
    assert way.signature(None, deep=True) == "— written by gemma"
