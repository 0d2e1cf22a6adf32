"""A message left open: what is refused, what the model is told, and an answer that goes on where it was cut."""

from typing import Any

import pytest

from bot.sim.vllm.server import ChatRequest, Endpoint
from tests.support.endpoint_client import Player, playing

OPEN = {"continue_final_message": True, "add_generation_prompt": False}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def go_on(player: Player, text: str, so_far: str, **fields: Any) -> str:
    """What is written behind `so_far`."""
    played = await player.play({"messages": [user(text), said(so_far)], **OPEN, **fields})
    assert played.status == 200, played.body
    return str(played.message["content"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
        ),
        (
            {"continue_final_message": True},
            "continue_final_message and add_generation_prompt are not compatible.",
        ),
        ({**OPEN, "messages": [user("hi"), said(None)]}, 'the final message has no "content" to continue!'),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
async def test_a_message_cannot_be_left_open_and_a_new_one_begun(
    fields: dict[str, Any], message: str, path: str
) -> None:
    async with playing(Endpoint()) as player:
        played = await player.play({"messages": [user("hi"), said("so")], **fields}, path)
    assert played.status == 400
    assert message in played.body["error"]["message"]


async def test_the_model_is_told_that_it_goes_on_and_in_what() -> None:
    asked: list[ChatRequest] = []

    def brain(request: ChatRequest) -> str:
        asked.append(request)
        return " and the rest"

    async with playing(Endpoint(brain=brain)) as player:
        assert await go_on(player, "hi", " The first half \n") == " and the rest"
        await player.say("hi")
    assert [request.continuing for request in asked] == [True, False]
    assert [request.so_far for request in asked] == ["The first half", ""]
    assert asked[0].prompt.endswith("<|turn>model\n<|channel>thought\n<channel|>The first half")


@pytest.mark.parametrize(
    "text",
    ["@@repeat:900 word @@", "a plain text to be said again " * 120, "@@think:hm@@@@say:" + "w " * 900],
)
@pytest.mark.parametrize("thinking", [True, False])
async def test_a_long_answer_cut_by_the_limit_goes_on_where_it_stopped(text: str, thinking: bool) -> None:
    endpoint = Endpoint()
    options = {"max_tokens": 256, "chat_template_kwargs": {"enable_thinking": thinking}}
    async with playing(endpoint) as player:
        whole = (await player.say(text, chat_template_kwargs={"enable_thinking": thinking})).message[
            "content"
        ]
        played = await player.say(text, **options)
        pieces = [played.message["content"]]
        while played.body["choices"][0]["finish_reason"] == "length":
            messages = [user(text), said("".join(pieces))]
            played = await player.play({"messages": messages, **OPEN, **options})
            assert not played.message["reasoning"]
            pieces.append(played.message["content"] or "")
    assert len(pieces) > 2
    assert "".join(pieces) == whole


async def test_a_reply_that_never_ends_goes_on_without_end() -> None:
    async with playing(Endpoint()) as player:
        so_far = "x" * 3000
        played = await player.play({"messages": [user("@@loop:x@@"), said(so_far)], **OPEN, "max_tokens": 8})
    assert played.body["choices"][0]["finish_reason"] == "length"
    assert set(played.message["content"]) == {"x"}


async def test_a_message_of_other_words_is_answered_from_the_beginning() -> None:
    async with playing(Endpoint()) as player:
        assert await go_on(player, "@@say:hello there@@", "something else") == "hello there"


async def test_a_message_left_open_is_counted_as_it_is_sent() -> None:
    endpoint = Endpoint()
    messages = [user("hi"), said("so far")]
    async with playing(endpoint) as player:
        counted = await player.play({"messages": messages, **OPEN}, "/tokenize")
        await go_on(player, "hi", "so far")
    assert counted.body["count"] == endpoint.requests[0].prompt_tokens
