"""What is sent to which endpoint; what the requests hold for vLLM is tested in test_llm.py."""

from bot.domain import Message, ToolCall
from bot.http_server import serve
from bot.llm.client import ModelClient
from bot.llm.dialect import PLAIN, VLLM
from bot.llm.seats import SeatLimiter
from tests.support.recorded_endpoint import ReplayServer, ignore, make_request, make_response

TOOL = {"name": "clock", "description": "Time", "parameters": {"type": "object"}}
LOOP = (
    Message("user", "time?"),
    Message("assistant", calls=(ToolCall("call-1", "clock", "{}"),), reasoning="need it"),
    Message("tool", "noon", call_id="call-1"),
)


def test_a_plain_endpoint_gets_the_standard_fields_alone():
    request = make_request(messages=LOOP, tools=(TOOL,), thinking=True, priority=2, max_thinking_tokens=1024)
    body = PLAIN.build_body("gemma", request)
    assert set(body) == {
        "model",
        "messages",
        "max_tokens",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
    }
    assert body["stream_options"] == {"include_usage": True}
    assert not [message for message in body["messages"] if "reasoning" in message]
    assert PLAIN.build_headers(request) == {}


async def test_the_client_uses_its_dialect():
    replay = ReplayServer([make_response("noon")])
    async with serve(replay.app) as url:
        client = ModelClient(f"{url}/v1", "gemma", SeatLimiter(1), dialect=PLAIN)
        assert (await client.call(make_request(messages=LOOP, thinking=True), ignore, ignore)).text == "noon"
        await client.close()
    assert replay.requests == [PLAIN.build_body("gemma", make_request(messages=LOOP, thinking=True))]
    assert "x-session-id" not in replay.headers[0]


def test_a_reply_continues_an_unfinished_message():
    messages = (*LOOP, Message("assistant", "It is", reasoning="noon"))
    body = VLLM.build_body("gemma", make_request(messages=messages, continue_final_message=True))
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert body["messages"][-1] == {"role": "assistant", "content": "It is", "reasoning": "noon"}
    assert "continue_final_message" not in VLLM.build_body("gemma", make_request(messages=messages))
    assert "continue_final_message" not in PLAIN.build_body(
        "gemma", make_request(messages=messages, continue_final_message=True)
    )
