"""What the people of the bench write, and what its model answers."""

import pytest

from bot.bench.harness import workload
from bot.sim.vllm.server import ChatRequest, count_tokens


def request(*texts: str, thinking: bool = False) -> ChatRequest:
    messages = [{"role": "user", "content": text} for text in texts]
    return ChatRequest(messages, (), thinking, "", 1024, {})


@pytest.mark.parametrize("number", [0, 7, 99, 123_456])
def test_questions_and_answers_have_the_length_that_is_asked_for(number: int):
    assert count_tokens(workload.write_question(number)) == 50
    assert abs(count_tokens(workload.write_reply(number, 150)) - 150) <= 1


def test_an_answer_begins_and_ends_as_no_other_does():
    for number in (0, 1, 11, 111):
        reply = workload.ProseBrain()(request(workload.write_question(number)))
        assert reply.startswith(workload.reply_opening(number))
        assert [n for n in range(200) if reply.endswith(workload.reply_ending(n))] == [number]


def test_the_newest_question_is_answered():
    assert workload.question_number(request(workload.write_question(3), workload.write_question(4))) == 4
    assert workload.question_number(request("hello")) == 0


def test_the_model_thinks_only_with_thinking_on():
    plain, thinking = (
        workload.ProseBrain()(request(workload.write_question(1), thinking=thinks))
        for thinks in (False, True)
    )
    assert thinking.endswith(plain)
    assert count_tokens(thinking) - count_tokens(plain) >= workload.ProseBrain().thought_tokens
