"""A message left open: what is refused, what the model reads, and an answer that continues after a cut."""

from typing import Any

import pytest

from bot.sim.vllm.server import ChatRequest
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.endpoint_client import SimulatorClient, open_client

OPEN = {"continue_final_message": True, "add_generation_prompt": False}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def continue_answer(player: SimulatorClient, text: str, open_text: str, **fields: Any) -> str:
    """What is written behind `so_far`."""
    played = await player.send({"messages": [user(text), assistant(open_text)], **OPEN, **fields})
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
        (
            {**OPEN, "messages": [user("hi"), assistant(None)]},
            'the final message has no "content" to continue!',
        ),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
async def test_a_message_cannot_be_left_open_and_a_new_one_begun(
    fields: dict[str, Any], message: str, path: str
) -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await player.send({"messages": [user("hi"), assistant("so")], **fields}, path)
    assert played.status == 400
    assert message in played.body["error"]["message"]


async def test_the_model_is_told_that_it_goes_on_and_in_what() -> None:
    requests: list[ChatRequest] = []

    def brain(request: ChatRequest) -> str:
        requests.append(request)
        return " and the rest"

    async with open_client(ScriptedEndpoint(brain=brain)) as player:
        assert await continue_answer(player, "hi", " The first half \n") == " and the rest"
        await player.send_text("hi")
    assert [request.is_continuation for request in requests] == [True, False]
    assert [request.open_text for request in requests] == ["The first half", ""]
    assert requests[0].prompt.endswith("<|turn>model\n<|channel>thought\n<channel|>The first half")


@pytest.mark.parametrize(
    "text",
    ["@@repeat:900 word @@", "a plain text to be said again " * 120, "@@think:hm@@@@say:" + "w " * 900],
)
@pytest.mark.parametrize("thinking", [True, False])
async def test_a_long_answer_cut_by_the_limit_goes_on_where_it_stopped(text: str, thinking: bool) -> None:
    endpoint = ScriptedEndpoint()
    options = {"max_tokens": 256, "chat_template_kwargs": {"enable_thinking": thinking}}
    async with open_client(endpoint) as player:
        unstreamed = (
            await player.send_text(text, chat_template_kwargs={"enable_thinking": thinking})
        ).message["content"]
        played = await player.send_text(text, **options)
        pieces = [played.message["content"]]
        while played.body["choices"][0]["finish_reason"] == "length":
            messages = [user(text), assistant("".join(pieces))]
            played = await player.send({"messages": messages, **OPEN, **options})
            assert not played.message["reasoning"]
            pieces.append(played.message["content"] or "")
    assert len(pieces) > 2
    assert "".join(pieces) == unstreamed


async def test_a_reply_that_never_ends_goes_on_without_end() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        so_far = "x" * 3000
        played = await player.send(
            {"messages": [user("@@loop:x@@"), assistant(so_far)], **OPEN, "max_tokens": 8}
        )
    assert played.body["choices"][0]["finish_reason"] == "length"
    assert set(played.message["content"]) == {"x"}


async def test_a_message_of_other_words_is_answered_from_the_beginning() -> None:
    async with open_client(ScriptedEndpoint()) as player:
        assert await continue_answer(player, "@@say:hello there@@", "something else") == "hello there"


async def test_a_message_left_open_is_counted_as_it_is_sent() -> None:
    endpoint = ScriptedEndpoint()
    messages = [user("hi"), assistant("so far")]
    async with open_client(endpoint) as player:
        counted = await player.send({"messages": messages, **OPEN}, "/tokenize")
        await continue_answer(player, "hi", "so far")
    assert counted.body["count"] == endpoint.requests[0].prompt_tokens
