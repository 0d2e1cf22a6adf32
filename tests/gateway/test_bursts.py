"""Messages that come in bursts: nothing is lost without a word."""

from pathlib import Path

import pytest

from bot.telegram.incoming import polling
from tests.support.gateway import GatewayHarness, running_gateway
from tests.support.telegram.server import ScriptedPerson


def replied_to(gateway: GatewayHarness) -> list[int | None]:
    """The message that each message of the bot replies to."""
    replied = [message.raw.get("reply_to_message") for message in gateway.ann.chat.bot_messages]
    return [raw and raw["message_id"] for raw in replied]


def forward(person: ScriptedPerson, count: int) -> list[int]:
    messages = [person.send(f"Group message {number}", forward_from="Anna") for number in range(count)]
    return [message.message_id for message in messages]


async def test_forty_forwards_and_the_question_after_them_are_one_turn(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        forward(gateway.ann, 40)
        question = gateway.ann.send("@@say:On Monday.@@")
        assert await gateway.wait_for_texts() == ["On Monday."]
        assert replied_to(gateway) == [question.message_id]
        [request] = gateway.endpoint.requests
        assert all(f"\nGroup message {number}\n" in request.prompt for number in range(40))
        assert gateway.api.calls_of("setMessageReaction") == []


async def test_of_three_hundred_forwards_the_rest_is_refused_once_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(polling, "OVERFLOW_HOLD_SECONDS", 6.0)  # in which a busy machine fetches them all
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("@@say:first@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        sent = forward(gateway.ann, 300)
        gateway.ann.send("@@say:second@@")
        [refusal] = await gateway.wait_for_texts()
        [first_refused] = [int(message_id) for message_id in replied_to(gateway) if message_id]
        gateway.endpoint.release()
        assert (await gateway.wait_for_texts(3))[1:] == ["first", "second"]
        taken = sent.index(first_refused)
        prompt = gateway.endpoint.requests[-1].prompt
    assert refusal == (
        f"That's more than I can read at once. So I skipped {300 - taken} messages, "
        f"from “Group message {taken}” to “Group message 299”. Please send them again in a minute."
    )
    assert 100 < taken < 200
    assert f"\nGroup message {taken - 1}\n" in prompt
    assert f"\nGroup message {taken}\n" not in prompt
    assert len(gateway.api.calls_of("setMessageReaction")) < 12  # one a batch of updates, set and removed


async def test_of_too_many_messages_the_last_are_named_once(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("@@say:first@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        sent = [gateway.ann.send(f"line {number}").message_id for number in range(22)]
        [refusal] = await gateway.wait_for_texts()
        assert (refusal, replied_to(gateway)) == (
            "You have 20 messages waiting. So I skipped 2 messages, from “line 20” to “line 21”. "
            "Please send them again in a minute.",
            [sent[20]],
        )
        gateway.endpoint.release()  # else it would wait for the turn as it goes down


async def test_long_messages_that_wait_are_answered_in_as_many_turns_as_prompts_need(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("@@say:first@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        sent = [gateway.ann.send(f"page {number}: {'x' * 3900}").message_id for number in range(12)]
        question = gateway.ann.send("@@say:That was all.@@").message_id
        await gateway.api.wait_until(lambda: gateway.api.calls_of("setMessageReaction"))
        gateway.endpoint.release()
        await gateway.api.wait_until(lambda: "That was all." in gateway.texts())
        requests = gateway.endpoint.requests
        assert [message_id for message_id in replied_to(gateway) if message_id] == [
            sent[4],
            sent[9],
            question,
        ]
    prompts = [request.prompt for request in requests]
    first_seen = [next(at for at, prompt in enumerate(prompts) if f"page {n}:" in prompt) for n in range(12)]
    assert first_seen == [1] * 5 + [2] * 5 + [3] * 2
    assert max(request.prompt_tokens for request in requests) < gateway.settings.prompt_budget
