"""Pictures: what they count, which are refused, and that the cache knows one from another."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from tests.support.endpoint.server import ScriptedEndpoint, ServerProfile
from tests.support.endpoint_client import SimulatorClient, open_client

JPEG = b"\xff\xd8\xff\xe0 a picture"
PNG = b"\x89PNG\r\n\x1a\n another one"


def image_part(data: bytes) -> dict[str, Any]:
    url = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


async def send_images(player: SimulatorClient, *parts: Any, text: str = "What is this?") -> Any:
    content = [*parts, {"type": "text", "text": text}]
    return await player.send({"messages": [{"role": "user", "content": content}]})


async def test_a_picture_is_280_tokens_of_the_prompt() -> None:
    endpoint = ScriptedEndpoint()
    async with open_client(endpoint) as player:
        none = await send_images(player)
        two = await send_images(player, image_part(JPEG), image_part(PNG))
        body = {"messages": endpoint.requests[1].body["messages"]}
        counted = await player.send(body, "/tokenize")
    assert two.body["usage"]["prompt_tokens"] == none.body["usage"]["prompt_tokens"] + 560
    assert counted.body["count"] == two.body["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("url", "status", "message"),
    [
        ("https://example.com/a.jpg", 422, "cannot be reached"),
        ("data:image/jpeg;base64,aGVsbG8=", 400, "cannot identify image file"),
        ("data:image/jpeg;base64,???", 400, "cannot identify image file"),
        ("data:text/plain,hello", 400, "cannot identify image file"),
    ],
)
async def test_what_is_no_picture_is_refused(url: str, status: int, message: str) -> None:
    async with open_client(ScriptedEndpoint()) as player:
        played = await send_images(player, {"type": "image_url", "image_url": {"url": url}})
    assert played.status == status
    assert message in played.body["error"]["message"]


async def test_a_model_that_only_reads_says_so() -> None:
    async with open_client(ScriptedEndpoint(replace(ServerProfile(), pictures=False))) as player:
        played = await send_images(player, image_part(JPEG))
        assert (await send_images(player)).status == 200
    assert played.status == 400
    assert played.body["error"]["message"] == "diffusiongemma is not a multimodal model"


@pytest.mark.parametrize("dense", [True, False])
async def test_the_cache_tells_pictures_apart(dense: bool) -> None:
    endpoint = ScriptedEndpoint(replace(ServerProfile(), dense_cache=dense))
    async with open_client(endpoint) as player:
        for data in (JPEG, JPEG, PNG):
            await send_images(player, image_part(data), image_part(JPEG), text="x " * 40)
    first, again, different = endpoint.requests
    assert first.cached_tokens == 0
    assert again.cached_tokens > 560
    assert different.cached_tokens < 32


async def test_pictures_of_a_tool_result_come_after_its_response() -> None:
    endpoint = ScriptedEndpoint()
    call = {"id": "a", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
    content_parts = [image_part(PNG), {"type": "text", "text": "The week."}, image_part(JPEG)]
    rounds = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": content_parts},
    ]
    async with open_client(endpoint) as player:
        played = await player.send({"messages": [{"role": "user", "content": "draw"}, *rounds]})
    assert played.status == 200
    assert '{value:<|"|>The week.<|"|>}<tool_response|><|image|><|image|>' in endpoint.requests[0].prompt
