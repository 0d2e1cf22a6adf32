"""Two endpoints: where a turn is answered and who signs; through the whole gateway over loopback."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app import turn_factory
from bot.db.conversations.turns import NewTurn, open_turn, set_endpoint
from bot.db.engine import Database
from bot.db.tables import model_calls, tool_calls, turns
from bot.domain import Message
from bot.sim.vllm.server import ChatRequest, format_tool_call
from bot.translations.translator import ENGLISH
from bot.turns import model_caller
from bot.turns.endpoint_router import EndpointRoute, EndpointRouter
from bot.turns.endpoints import ModelEndpoint
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN
from tests.support.turn_harness import LANE, ScriptedModel, TurnHarness, make_reply
from tests.support.two_endpoints import MODEL, SIGNATURE, button_labels, open_two_endpoints

UNLESS_DOWN = "the first endpoint answers unless it is down"


async def test_the_first_answers_while_it_can_and_signs_nothing(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        assert await both.send("@@say:here@@") == "here"
        assert both.fallback.requests == []
    assert await both.load_rows(turns, "endpoint", "endpoint_why") == [("main", UNLESS_DOWN)]


async def test_while_the_first_is_down_the_second_answers_and_signs_but_not_the_next_turn(
    tmp_path: Path,
):
    async with open_two_endpoints(tmp_path) as both:
        both.main.inject_fault("busy", times=None)
        assert await both.send("@@say:here@@") == f"here\n\n{SIGNATURE}"
        both.main.heal()
        assert await both.send("@@say:back@@", 2) == "back"
        assert MODEL not in json.dumps(both.main.requests[-1].body)
    assert await both.load_calls() == [
        ("main", "failed", None),
        ("main", "failed", "away"),
        ("fallback", "ok", "fallback"),
        ("main", "ok", None),
    ]
    assert (await both.load_rows(model_calls, "model"))[2] == (MODEL,)
    assert await both.load_rows(turns, "endpoint", "endpoint_why", "ending") == [
        ("fallback", "the first endpoint did not answer", "answered"),
        ("main", UNLESS_DOWN, "answered"),
    ]


async def test_while_the_first_is_known_to_be_away_one_attempt_is_enough(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        both.main.inject_fault("busy", times=None)
        await both.send("@@say:here@@")
        assert await both.send("@@say:again@@", 2) == f"again\n\n{SIGNATURE}"
    assert (await both.load_calls())[3:] == [("main", "failed", None), ("fallback", "ok", "fallback")]


async def test_after_two_refusals_the_turn_continues_at_the_second(tmp_path: Path):
    async with open_two_endpoints(tmp_path, ScriptedEndpoint(api_key="right"), model_api_key="wrong") as both:
        assert await both.send("@@say:here@@") == f"here\n\n{SIGNATURE}"
    assert await both.load_calls() == [
        ("main", "failed", None),
        ("main", "failed", "refused"),
        ("fallback", "ok", "fallback"),
    ]


async def test_when_both_refuse_the_answer_says_so(tmp_path: Path):
    async with open_two_endpoints(tmp_path, ScriptedEndpoint(api_key="right"), model_api_key="wrong") as both:
        both.fallback.inject_fault("unauthorized", times=None)
        assert "refused my request" in await both.send("@@say:here@@")
    assert [(endpoint, again) for endpoint, _, again in await both.load_calls()] == [
        ("main", None),
        ("main", "refused"),
        ("fallback", "fallback"),
        ("fallback", "refused"),
    ]


async def test_when_both_are_down_each_is_tried_until_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The last one alone is longer than the patience.
    monkeypatch.setattr(model_caller, "BACKOFF_SECONDS", (0.0, 0.0, 11.0))
    monkeypatch.setattr(turn_factory, "MODEL_WAIT_SECONDS", 10.0)
    async with open_two_endpoints(tmp_path) as both:
        both.main.inject_fault("busy", times=None)
        both.fallback.inject_fault("busy", times=None)
        both.gateway.ann.send("@@say:here@@")
        await both.gateway.api.wait_until(
            lambda: any("still not answering" in text for text in both.final_texts())
        )
        assert not any(SIGNATURE in text for text in both.final_texts())
    assert [(endpoint, again) for endpoint, _, again in await both.load_calls()] == [
        ("main", None),
        ("main", "away"),
        ("fallback", "fallback"),
        ("fallback", "away"),
    ]


async def test_a_turn_that_finds_the_second_down_too_returns_to_the_first(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        both.main.inject_fault("busy", times=2)
        both.fallback.inject_fault("busy", times=2)
        assert await both.send("@@say:here@@") == "here"
    assert [endpoint for endpoint, _, _ in await both.load_calls()] == [
        "main",
        "main",
        "fallback",
        "fallback",
        "main",
    ]
    assert await both.load_rows(turns, "endpoint", "endpoint_why") == [
        ("main", "the second endpoint did not answer")
    ]


async def test_the_same_turn_continues_and_no_tool_runs_again(tmp_path: Path):
    def fail_after_first_reply(request: ChatRequest) -> str:
        first.inject_fault("busy", times=None)
        return format_tool_call("calculate", {"expression": "6*7"})

    first = ScriptedEndpoint(brain=fail_after_first_reply)
    async with open_two_endpoints(tmp_path, first) as both:
        both.fallback.brain = lambda request: "It is " + str(request.messages[-1]["content"])
        assert (await both.send("what is 6*7?")).endswith(SIGNATURE)
        assert "42" in both.final_texts()[0]
        assert [message["role"] for message in both.fallback.requests[0].body["messages"]][-3:] == [
            "user",
            "assistant",
            "tool",
        ]
    assert await both.load_rows(tool_calls, "name", "outcome") == [("calculate", "ok")]
    assert [role for role, _, _ in await both.load_calls()] == ["main", "main", "main", "fallback"]


async def test_tools_work_at_the_second_too(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        text = '/deep @@tool:calculate {"expression": "6*7"}@@@@say:done@@'
        assert await both.send(text) == f"done\n\n{SIGNATURE}"
    assert await both.load_rows(tool_calls, "name", "outcome", "result") == [("calculate", "ok", "42")]


async def test_deep_is_answered_by_the_second_and_the_next_message_by_the_first(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        assert await both.send("/deep @@say:far@@") == f"far\n\n{SIGNATURE}"
        assert both.fallback.requests[0].body["messages"][-1]["content"].endswith("@@say:far@@")
        assert "/deep" not in both.sent_to_fallback()
        assert await both.send("@@say:near@@", 2) == "near"
    assert await both.load_calls() == [("fallback", "ok", None), ("main", "ok", None)]
    assert (await both.load_rows(turns, "endpoint_why"))[0] == ("/deep asked for it",)


async def test_an_answer_cut_at_the_second_is_signed_and_can_be_continued(tmp_path: Path):
    async with open_two_endpoints(tmp_path, model_max_tokens=256) as both:
        text = await both.send("/deep @@repeat:900 word @@")
        assert text.startswith("word word")
        assert text.endswith(SIGNATURE)
        assert "Continue" in button_labels(both.gateway.api.chat(ADMIN).bot_messages[-1])
        assert len(both.fallback.requests) == 1
        both.tap(both.gateway.api.chat(ADMIN).bot_messages[-1], "Continue")
        assert (await both.wait_for_answer(2)).endswith(SIGNATURE)
        assert both.main.requests == []


async def test_a_turn_of_the_second_is_retried_and_revised_there(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        asked = both.gateway.ann.send("/deep @@say:far@@ awya")
        await both.wait_for_answer(1)
        both.gateway.ann.edit(asked, "/deep @@say:further@@ away")
        changed = f"further\n\n{SIGNATURE}"
        await both.gateway.api.wait_until(lambda: both.final_texts() == [changed])
        both.gateway.ann.send("/retry")
        await both.wait_for_answer(2)
        both.main.inject_fault("busy", times=2)
        assert (await both.send("@@say:only now@@", 3)).endswith(SIGNATURE)
        both.gateway.ann.send("/retry")
        assert await both.wait_for_answer(4) == "only now"
    assert [role for role, outcome, _ in await both.load_calls() if outcome == "ok"] == [
        "fallback",
        "fallback",
        "fallback",
        "fallback",
        "main",
    ]


async def test_deep_while_the_second_is_down_is_answered_by_the_first_which_says_so(tmp_path: Path):
    async with open_two_endpoints(tmp_path) as both:
        both.fallback.inject_fault("busy", times=None)
        assert (
            await both.send("/deep @@say:near@@")
            == "near\n\n— written by diffusiongemma, not by the second model"
        )
    assert [(role, again) for role, _, again in await both.load_calls()] == [
        ("fallback", None),
        ("fallback", "away"),
        ("main", "main"),
    ]


async def test_hard_turns_go_to_the_second_where_the_settings_want_it(tmp_path: Path):
    async with open_two_endpoints(tmp_path, fallback_for="hard", thinking="on") as both:
        assert await both.send("@@say:deep thought@@") == f"deep thought\n\n{SIGNATURE}"
    assert await both.load_calls() == [("fallback", "ok", None)]
    assert await both.load_rows(turns, "endpoint_why", "thinking") == [("the turn is a hard one", True)]
    assert await both.load_rows(model_calls, "thinking") == [(False,)]


async def test_easy_turns_go_to_the_first_all_the_same(tmp_path: Path):
    async with open_two_endpoints(tmp_path, fallback_for="hard", thinking="off") as both:
        assert await both.send("@@say:hello@@") == "hello"


async def test_a_turn_at_a_second_endpoint_that_is_gone_continues_at_the_first(database: Database):
    harness = TurnHarness(database, ScriptedModel([make_reply("here")]))
    request = await harness.new_request("hello")
    async with database.transaction() as tx:
        new_turn = NewTurn(request.items[0].id, LANE, 7, 1, (), False, "", received_at=0.0)
        turn = await open_turn(tx, new_turn, [request.items[0].id], [Message("user", "hello")], now=1.0)
        assert turn is not None
        await set_endpoint(tx, turn.id, "fallback", "/deep asked for it")
    await harness.build_runner().run(await harness.restart("hello"))
    assert await harness.load_answers() == ["here"]
    assert await harness.load_rows(turns, "endpoint", "endpoint_why") == [
        ("main", "there is no second endpoint any more")
    ]


@pytest.mark.parametrize(
    ("name", "shown_name"),
    [
        ("gemma-4-31b-it", "gemma-4-31b-it"),
        ("a_b*c`[d](e)", r"a\_bcde"),
        ("*", "another model"),
        ("x" * 99, "x" * 80),
    ],
)
async def test_the_name_of_a_model_is_shown_without_markdown(database: Database, name: str, shown_name: str):
    routes = TurnHarness(database, ScriptedModel())._build_routes()
    endpoint = ModelEndpoint("fallback", "http://spark/v1", ScriptedModel(), lambda: "gemma")
    fallback = EndpointRoute(endpoint, routes.main.caller, can_continue=False)
    router = EndpointRouter(replace(routes, fallback=fallback), LANE)
    router.role = "fallback"
    assert router.format_signature(ENGLISH, name, deep=False) == f"— written by {shown_name}"
    assert router.format_signature(ENGLISH, None, deep=True) == "— written by gemma"
