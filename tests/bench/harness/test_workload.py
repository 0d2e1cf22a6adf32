"""What the people of the bench write, and what its model answers."""

import pytest

from bot.agent.thinking_policy import decide_thinking
from bot.sim.vllm.server import ChatRequest, count_tokens
from bot.tool_registry.toolbox import Toolbox
from tests.bench.harness import workload
from tools.registry import discover


def request(*texts: str, thinking: bool = False) -> ChatRequest:
    messages = [{"role": "user", "content": text} for text in texts]
    return ChatRequest(messages, (), thinking, "", 1024, {})


@pytest.mark.parametrize("number", [0, 7, 99, 123_456])
def test_answers_have_the_length_that_is_asked_for(number: int):
    assert abs(count_tokens(workload.write_reply(number, 150)) - 150) <= 1


def test_an_answer_begins_and_ends_as_no_other_does():
    for number in (0, 1, 11, 111):
        reply = workload.ProseBrain()(request(workload.write_question(number)))
        assert reply.startswith(workload.reply_opening(number))
        assert [n for n in range(200) if reply.endswith(workload.reply_ending(n))] == [number]


def test_messages_differ_are_of_one_size_and_ask_for_no_thinking():
    """`bench load` compares with bots that do not think, with every setting as shipped."""
    tool_index = Toolbox(discover()).tool_index
    questions = [workload.write_question(number) for number in range(100_000, 100_504)]
    tokens = [count_tokens(question) for question in questions]
    assert len({question.partition(": ")[2] for question in questions}) == len(questions)
    assert 35 <= min(tokens) <= max(tokens) <= 60
    decisions = [decide_thinking([question], tool_index) for question in questions[::8]]
    assert not any(decision.thinking for decision in decisions)
    assert sum(decision.is_unsure for decision in decisions) <= len(decisions) / 20


def test_the_newest_question_is_answered():
    assert workload.question_number(request(workload.write_question(3), workload.write_question(4))) == 4
    assert workload.question_number(request("hello")) == 0


def test_an_answer_is_known_by_its_end():
    assert workload.find_answer_number(workload.write_reply(17, 150)) == 17
    assert workload.find_answer_number(workload.write_reply(17, 150)[:-1]) is None


def test_the_model_thinks_only_with_thinking_on():
    plain, thinking = (
        workload.ProseBrain()(request(workload.write_question(1), thinking=thinks))
        for thinks in (False, True)
    )
    assert thinking.endswith(plain)
    assert count_tokens(thinking) - count_tokens(plain) >= workload.ProseBrain().thought_tokens
