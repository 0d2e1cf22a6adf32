"""The two routes for typed questions: their shapes, their limits, who has them, and what a read costs."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bot.sim.vllm.server import Timing, TypedQuestion
from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import open_client

SYSTEMONE, DECISIONS = "/v1/systemone", "/v1/decisions"
CHOICE = {
    "type": "choice",
    "instructions": "Which team?",
    "criteria": {"billing": "payments, cards", "travel": None},
}
NOUL = {"type": "noul", "instructions": "Was the card charged?"}
SCORE = {"type": "score", "instructions": "How upset?", "criteria": ["calm", "annoyed", "furious"]}
STATE = "My card was charged twice."


def systemone_body(**questions: Any) -> dict[str, Any]:
    return {"model": "diffusiongemma", "state": STATE, "questions": questions}


def decisions_body(*questions: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "diffusiongemma", "input": STATE, "questions": list(questions), **fields}


PREDICATE = {"type": "predicate", "instructions": "Was the card charged?", "name": "charged"}
CHOICES = {"type": "choice", "instructions": "Which?", "choices": [{"value": "cards"}, {"value": "trips"}]}
LEVELS = {
    "type": "score",
    "instructions": "How?",
    "levels": [{"label": "calm"}, {"label": "twice", "description": "x"}],
}


async def test_systemone_answers_by_name_with_probabilities_and_usage() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.send(systemone_body(team=CHOICE, charged=NOUL, mood=SCORE), SYSTEMONE)
    assert played.status == 200
    body = played.body
    assert body["object"] == "structured_decision"
    assert body["id"].startswith("decision-")
    assert list(body["answers"]) == ["team", "charged", "mood"] == list(body["diagnostics"])
    team, charged, mood = body["answers"].values()
    assert team["type"] == "choice"
    assert sum(team["probabilities"].values()) == pytest.approx(1)
    assert charged["noul"] == charged["probabilities"]["yes"] > 0.5
    assert mood["legend"] == {"0": "calm", "1": "annoyed", "2": "furious"}
    assert mood["score"] == pytest.approx(1)
    assert 0 < team["confidence"] < 1
    assert body["usage"].keys() == {"input_tokens", "output_tokens"}
    assert body["usage"]["output_tokens"] == 6
    assert body["joint"] is None


async def test_decisions_answers_in_order_with_all_of_the_usage() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.send(decisions_body(PREDICATE, CHOICES, LEVELS), DECISIONS)
    predicate, choice, score = played.body["answers"]
    assert predicate.keys() == {"type", "name", "probability"}
    assert predicate["name"] == "charged"
    assert [option["value"] for option in choice["probabilities"]] == ["cards", "trips"]
    assert score["probabilities"][1]["label"] == "twice"
    assert score["name"] is None
    usage = played.body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] == 0


async def test_a_judge_can_be_set_and_sees_what_was_asked() -> None:
    endpoint = ScriptedEndpoint(judge=lambda question: (3, 1))
    async with open_client(endpoint) as player:
        first = await player.send(systemone_body(charged=NOUL), SYSTEMONE)
        endpoint.judge = lambda question: (0, 0)
        nothing = await player.send(decisions_body(PREDICATE), DECISIONS)
    assert first.body["answers"]["charged"]["noul"] == 0.75
    assert nothing.body["answers"][0]["probability"] == 0
    assert endpoint.typed_questions == [
        TypedQuestion("charged", "noul", "Was the card charged?", ("yes", "no"), ("", ""), STATE),
        TypedQuestion("charged", "noul", "Was the card charged?", ("yes", "no"), ("", ""), STATE),
    ]


async def test_the_state_may_be_json_and_the_input_messages() -> None:
    endpoint = ScriptedEndpoint()
    parts = [{"type": "input_text", "text": "two"}]
    messages = [{"role": "user", "content": "one"}, {"role": "user", "content": parts}]
    async with open_client(endpoint) as player:
        await player.send(
            {**systemone_body(a=NOUL), "state": {"é": 1}, "instructions": "Be strict."}, SYSTEMONE
        )
        await player.send({**decisions_body(PREDICATE), "input": messages}, DECISIONS)
    assert [question.state for question in endpoint.typed_questions] == ['{"é": 1}', "one\ntwo"]


async def test_a_read_is_one_step_of_a_small_canvas() -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        played = await player.send(systemone_body(**{str(n): NOUL for n in range(8)}), SYSTEMONE)
        assert (
            'diffusion_num_denoising_steps_total{engine="0",model_name="diffusiongemma"} 1.0'
            in await read_metrics(player)
        )
        await player.send(systemone_body(**{str(n): NOUL for n in range(9)}), SYSTEMONE)
        text = await read_metrics(player)
    assert "diffusion_num_denoising_steps_total" in text
    assert 'diffusion_num_canvas_positions_total{engine="0",model_name="diffusiongemma"} 48.0' in text
    assert played.body["usage"]["input_tokens"] > 20
    assert endpoint.generated_tokens == 0
    assert endpoint.requests == []


async def read_metrics(player: Any) -> str:
    return str((await player.http.get("/metrics")).text)


@pytest.mark.parametrize(
    ("version", "statuses"), [("0.33.0", (200, 200)), ("0.32.0", (200, 404)), ("0.31.2", (404, 404))]
)
async def test_older_releases_lack_the_routes(version: str, statuses: tuple[int, int]) -> None:
    async with open_client(ScriptedEndpoint(ServerProfile(version=version))) as player:
        first = await player.send(systemone_body(a=NOUL), SYSTEMONE)
        second = await player.send(decisions_body(PREDICATE), DECISIONS)
    assert (first.status, second.status) == statuses


async def test_without_log_probabilities_it_cannot() -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile(), logprobs=False))) as player:
        for body, path in ((systemone_body(a=NOUL), SYSTEMONE), (decisions_body(PREDICATE), DECISIONS)):
            played = await player.send(body, path)
            assert played.status == 501
            assert played.body["error"]["message"] == "The model does not support the Decisions API"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "zzz", "state": "x", "questions": {"a": NOUL}}, "does not exist"),
        ({"questions": {"a": NOUL}}, "'loc': 'body.state', 'msg': 'Field required'"),
        ({"state": "x"}, "'loc': 'body.questions', 'msg': 'Field required'"),
        ({"state": "x", "questions": {}}, "Input should be a valid dictionary"),
        ({"state": "x", "questions": [NOUL]}, "Input should be a valid dictionary"),
        (systemone_body(**{str(n): NOUL for n in range(65)}), "questions: at most 64 for this model"),
        (
            systemone_body(a={**CHOICE, "criteria": {str(n): None for n in range(27)}}),
            "at most 26 options for this model",
        ),
        (
            systemone_body(a={**SCORE, "criteria": [str(n) for n in range(11)]}),
            "at most 10 options for this model",
        ),
        (systemone_body(a={**SCORE, "criteria": ["one"]}), "must be an ordered list of levels"),
        (systemone_body(a={**CHOICE, "criteria": {}}), "must map option names"),
        (systemone_body(a={**NOUL, "criteria": ["yes"]}), "noul criteria must be an object"),
        (systemone_body(a={**NOUL, "name": "b"}), "Extra inputs are not permitted"),
        (
            systemone_body(a={"type": "guess"}),
            "unknown question type 'guess'; supported: ['choice', 'noul', 'score']",
        ),
        (systemone_body(a={}), "'loc': 'body.questions.a.type', 'msg': 'Field required'"),
    ],
)
async def test_systemone_refuses_with_the_servers_words(body: dict[str, Any], message: str) -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.send(body, SYSTEMONE)
    assert played.status in (400, 404)
    assert message in played.body["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "diffusiongemma", "input": "x"}, "'loc': 'body.questions', 'msg': 'Field required'"),
        (decisions_body(), "List should have at least 1 item"),
        (
            decisions_body(PREDICATE, temperature=1),
            "'loc': 'body.temperature', 'msg': 'Extra inputs are not permitted'",
        ),
        (decisions_body({**PREDICATE, "criteria": {}, "kind": 1}), "'loc': 'body.questions.0.kind'"),
        (
            decisions_body({"type": "predicate"}),
            "'loc': 'body.questions.0.instructions', 'msg': 'Field required'",
        ),
        (decisions_body({"type": "guess", "instructions": ""}), "Input tag 'guess' is unknown"),
        (decisions_body({**CHOICES, "choices": [{"value": 1}]}), "List should have at least 2 items"),
        (
            decisions_body({**CHOICES, "choices": [{"value": n} for n in range(27)]}),
            "at most 26 options for this model",
        ),
        (
            decisions_body(PREDICATE, input=[{"role": "user", "content": [{"type": "input_image"}]}]),
            "Decisions supports text input only",
        ),
    ],
)
async def test_decisions_refuses_with_the_servers_words(body: dict[str, Any], message: str) -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.send(body, DECISIONS)
    assert played.status == 400
    assert message in played.body["error"]["message"]


async def test_a_read_takes_a_seat_and_gives_it_back_when_the_client_goes() -> None:
    endpoint = ScriptedEndpoint(seats=1)
    async with open_client(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        reading = tasks.create_task(player.send(systemone_body(a=NOUL), SYSTEMONE))
        await endpoint.wait_until(lambda: endpoint.running == 1)
        impatient = tasks.create_task(player.send(decisions_body(PREDICATE), DECISIONS))
        await endpoint.wait_until(lambda: endpoint.waiting == 1)
        impatient.cancel()
        await endpoint.wait_until(lambda: endpoint.waiting == 0)
        endpoint.release()
        assert (await reading).status == 200
    assert endpoint.running == 0


async def test_a_dead_engine_reads_nothing_any_more(lingering_server: None) -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player, asyncio.TaskGroup() as tasks:
        endpoint.hold()
        reading = tasks.create_task(player.send(systemone_body(a=NOUL), SYSTEMONE))
        await endpoint.wait_until(lambda: endpoint.running == 1)
        await player.send_text("@@crash@@")
        assert (await reading).status == 500
        assert (await player.send(decisions_body(PREDICATE), DECISIONS)).status == 500


async def test_a_read_takes_the_time_of_a_step() -> None:
    timing = Timing(step_ms=10, steps_per_canvas=16)
    assert timing.canvas_time(0, 1) == pytest.approx(timing.canvas_time(0) / 16)
    async with open_client(ScriptedEndpoint(timing=timing)) as player:
        assert (await player.send(systemone_body(a=NOUL), SYSTEMONE)).status == 200
