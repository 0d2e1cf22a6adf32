"""Two endpoints: where a turn is answered and who signs; through the whole house over loopback."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bot.db.conversations import turns as stored
from bot.db.conversations.turns import NewTurn
from bot.db.engine import Database
from bot.db.tables import model_calls, tool_calls, turns
from bot.domain import Message
from bot.sim.vllm.server import ChatRequest, Endpoint, call_text
from bot.turns import endpoints
from bot.turns import model_caller as asking
from bot.turns.endpoint_router import Place, Way
from tests.support.gateway import ADMIN
from tests.support.turn_harness import LANE, Desk, Model, said
from tests.support.two_endpoints import MODEL, SIGNED, labels, two

UNLESS_DOWN = "the first endpoint answers unless it is down"


async def test_the_first_answers_while_it_can_and_signs_nothing(tmp_path: Path):
    async with two(tmp_path) as both:
        assert await both.ask("@@say:here@@") == "here"
        assert both.second.requests == []
    assert await both.rows(turns, "endpoint", "endpoint_why") == [("main", UNLESS_DOWN)]


async def test_the_first_is_down_the_second_answers_and_signs_and_the_next_turn_is_the_firsts_again(
    tmp_path: Path,
):
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


async def test_both_are_down_each_is_tried_until_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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
    assert [endpoint for endpoint, _, _ in await both.calls()] == [
        "main",
        "main",
        "fallback",
        "fallback",
        "main",
    ]
    assert await both.rows(turns, "endpoint", "endpoint_why") == [
        ("main", "the second endpoint did not answer")
    ]


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
        assert (
            await both.ask("/deep @@say:near@@")
            == "near\n\n— written by diffusiongemma, not by the second model"
        )
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
    assert await desk.rows(turns, "endpoint", "endpoint_why") == [
        ("main", "there is no second endpoint any more")
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gemma-4-31b-it", "gemma-4-31b-it"),
        ("a_b*c`[d](e)", r"a\_bcde"),
        ("*", "another model"),
        ("x" * 99, "x" * 80),
    ],
)
async def test_the_name_of_a_model_is_shown_as_it_is(database: Database, name: str, shown: str):
    first = Desk(database, Model())._places()
    address = endpoints.Endpoint("fallback", "http://spark/v1", Model(), lambda: "gemma")
    way = Way(replace(first, second=Place(address, first.first.asking, continues=False)), LANE)
    way.which = "fallback"
    assert way.signature(name, deep=False) == f"— written by {shown}"
    assert way.signature(None, deep=True) == "— written by gemma"
