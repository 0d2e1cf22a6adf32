"""An answer cut at the length limit is continued, joined exactly, and never lost to a limit."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, LoopEvent, RunTools, TurnInterruption, TurnLimits, TurnResult
from bot.agent.loop import run_turn
from bot.domain import Message, Reply, ToolCall, Usage
from tests.agent.test_loop import (
    LIMITS,
    PROMPT,
    STRICT_LIMITS,
    expect_model_call,
    expect_result,
    make_weather_reply,
    run_loop,
)
from tests.support.offered_tools import TOOLS, make_call, make_reply

NOTE = "_I've reached the limit for one answer._"


def make_cut_reply(text: str, tokens: int | None = 256, reasoning_tokens: int = 0) -> Reply:
    """A reply that ended at its limit after so many tokens."""
    return replace(
        make_reply(text, finish="length"),
        usage=Usage(completion_tokens=tokens, reasoning_tokens=reasoning_tokens),
    )


def test_a_cut_answer_is_continued_in_its_middle():
    events = run_loop([make_cut_reply("The weath"), make_reply("er is fine.")])
    second_call = expect_model_call(events[1])
    assert second_call == CallModel(
        messages=(*PROMPT, Message("assistant", "The weath")),
        tool_choice="auto",
        max_tokens=1024,
        step=2,
        retry_reason="more",
        new_messages=(),
        continue_final_message=True,
        visible_text="The weath",
    )
    assert second_call.is_optional
    assert not expect_model_call(events[0]).is_optional
    end = expect_result(events[-1])
    assert (end.text, end.ending, end.note, end.has_more) == ("The weather is fine.", "answered", None, False)
    assert end.new_messages == (Message("assistant", "The weather is fine."),)


def test_whitespace_at_the_cut_is_left_for_the_model_to_write_again():
    events = run_loop([make_cut_reply("One line.\n\n"), make_cut_reply("\n\nAnother "), make_reply(" line.")])
    assert [event.messages[-1].text for event in events if isinstance(event, CallModel)][1:] == [
        "One line.",
        "One line.\n\nAnother",
    ]
    assert expect_result(events[-1]).text == "One line.\n\nAnother line."


def test_reasoning_before_a_cut_answer_is_sent_back_and_gets_no_canvases_again():
    thought = replace(make_cut_reply("The weath", 1500, 1400), reasoning="need it")
    events = run_loop([thought, make_reply("er.", reasoning="more")], thinking=True)
    second_call = expect_model_call(events[1])
    assert second_call.messages[-1] == Message("assistant", "The weath", reasoning="need it")
    assert (second_call.thinking, second_call.max_tokens, second_call.max_thinking_tokens) == (
        True,
        1024,
        None,
    )


def test_an_answer_takes_eight_canvases_at_most_and_says_that_there_is_more():
    events = run_loop([make_cut_reply("a", 1024), make_cut_reply("b", 768), make_cut_reply("c", 256)])
    assert [event.max_tokens for event in events if isinstance(event, CallModel)] == [1024, 1024, 256]
    end = expect_result(events[-1])
    assert (end.text, end.ending, end.has_more) == (f"abc\n\n{NOTE}", "cut", True)


def test_without_a_count_the_blocks_are_the_canvases():
    blocks = [replace(make_cut_reply(letter, None), blocks=4) for letter in "ab"]
    assert expect_result(run_loop(blocks)[-1]).text == f"ab\n\n{NOTE}"


def test_reasoning_tokens_do_not_count_as_the_answer():
    events = run_loop(
        [make_cut_reply("a", 2048, 2000), make_cut_reply("b", 1792), make_reply("c")], thinking=True
    )
    assert [event.max_tokens for event in events if isinstance(event, CallModel)] == [2048, 1024]
    assert expect_result(events[-1]).has_more


def test_an_answer_that_has_its_canvases_at_once_is_not_continued():
    events = run_loop([make_cut_reply("a", 4096)], TurnLimits(8, 4096))
    assert (len(events), expect_result(events[-1]).has_more) == (2, True)


def test_if_the_endpoint_cannot_continue_the_user_may_ask_for_more():
    end = expect_result(run_loop([make_cut_reply("Half")], STRICT_LIMITS)[-1])
    assert (end.text, end.has_more) == (f"Half\n\n{NOTE}", True)


def test_the_last_step_of_a_turn_is_the_end_of_its_answer():
    end = expect_result(run_loop([make_weather_reply(), make_cut_reply("12 deg")], TurnLimits(2, 1024))[-1])
    assert (end.text, end.ending, end.has_more) == (f"12 deg\n\n{NOTE}", "cut", True)


@pytest.mark.parametrize(
    ("reason", "partial", "text"),
    [("crowded", None, "The weath"), ("failed", make_reply("er", finish=None), "The weather")],
)
def test_an_answer_that_cannot_be_continued_is_kept_as_it_is(reason, partial, text):
    loop = run_turn(PROMPT, TOOLS, LIMITS, False)
    next(loop)
    assert expect_model_call(loop.send(make_cut_reply("The weath"))).is_optional
    end = expect_result(loop.send(TurnInterruption(reason, partial)))
    assert (end.text, end.ending, end.has_more) == (f"{text}\n\n{NOTE}", "cut", True)
    assert end.new_messages == (Message("assistant", text),)


@pytest.mark.parametrize("reason", ["stopped", "seconds"])
def test_an_answer_interrupted_while_it_is_continued_keeps_all_text_shown(reason):
    for partial, text in [(None, "The weath"), (make_reply("er is", finish=None), "The weather is")]:
        loop = run_turn(PROMPT, TOOLS, LIMITS, False)
        next(loop)
        loop.send(make_cut_reply("The weath"))
        end = expect_result(loop.send(TurnInterruption(reason, partial)))
        assert end.text.startswith(f"{text}\n\n")
        assert (end.ending, end.has_more) == (reason, False)


def test_a_model_that_adds_nothing_is_not_called_again():
    for empty_reply in (
        make_reply(""),
        make_reply(" \n"),
        make_reply("", reasoning="hm"),
        make_cut_reply(""),
    ):
        end = expect_result(run_loop([make_cut_reply("The end."), empty_reply])[-1])
        assert end.text == "The end.\n\n_I've reached the limit for one answer. Ask me to go on._"
        assert (end.ending, end.has_more) == ("cut", False)


def test_an_answer_that_begins_to_repeat_itself_ends_there():
    end = expect_result(
        run_loop([make_cut_reply("Well, one, two, "), make_reply(" one, two," * 9, finish="repetition")])[-1]
    )
    assert end.text == "Well, one, two,\n\n_I started to repeat myself, so I stopped here._"
    assert not end.has_more


def test_a_bare_call_cut_in_its_name_is_run_once_complete_and_never_shown():
    events = run_loop(
        [
            make_cut_reply("Let me look.\ncall:get_wea"),
            make_reply('ther{city:"Paris"}'),
            make_reply("12 degrees."),
        ]
    )
    assert expect_model_call(events[1]).visible_text == "Let me look."
    assert isinstance(events[2], RunTools)
    assert [checked.call.name for checked in events[2].calls] == ["get_weather"]
    assert [message.text for message in events[2].new_messages] == ["Let me look.", ""]
    assert expect_result(events[-1]).text == "12 degrees."


def test_a_call_after_a_cut_answer_is_run():
    call = make_call("get_weather", '{"city": "Paris"}', "id-1")
    events = run_loop(
        [
            make_cut_reply("Let me "),
            make_reply(" look.", call, finish="tool_calls"),
            make_reply("12 degrees."),
        ]
    )
    run = events[2]
    assert isinstance(run, RunTools)
    assert run.new_messages == (
        Message("assistant", "Let me look."),
        Message("assistant", calls=(ToolCall("id-1", "get_weather", '{"city": "Paris"}'),)),
    )
    assert not expect_model_call(events[3]).continue_final_message


def test_a_call_cut_in_a_continued_answer_is_retried_with_a_higher_limit_and_keeps_the_text():
    half = make_reply(" look.", make_call("get_weather"), finish="length")
    events = run_loop([make_cut_reply("Let me"), half, half])
    retry = expect_model_call(events[2])
    assert (retry.retry_reason, retry.max_tokens, retry.messages) == (
        "cut",
        12 * 256,
        expect_model_call(events[1]).messages,
    )
    end = expect_result(events[-1])
    assert end.text.startswith("Let me look.\n\nThis needed one very long tool call")
    assert end.ending == "cut"


def test_an_answer_without_tools_is_continued_after_the_same_prompt():
    failed_calls = [
        make_reply("", make_call("rm_rf", "{}", str(number)), finish="tool_calls") for number in range(3)
    ]
    events = run_loop([*failed_calls, make_cut_reply("I can"), make_reply("not.")])
    first, last = [event for event in events if isinstance(event, CallModel)][-2:]
    assert last.messages == (*first.messages, Message("assistant", "I can"))
    assert last.tool_choice == "none"
    assert expect_result(events[-1]).text == "I cannot."


@pytest.mark.parametrize("text", ["a <|turn> b", "x <eos>", '<|"|>', " \n"])
def test_text_with_control_tokens_is_not_sent_back(text):
    assert not [
        event
        for event in run_loop([make_cut_reply(text)] * 3)
        if isinstance(event, CallModel) and event.continue_final_message
    ]


@pytest.mark.parametrize("text", ["call:get_wea", "<|tool_call"])
def test_nothing_but_the_beginning_of_a_call_is_no_answer(text):
    events = run_loop([make_cut_reply(text), make_reply("Hello!")], STRICT_LIMITS)
    assert expect_model_call(events[1]).retry_reason == "cut"
    assert expect_result(events[-1]).text == "Hello!"


def test_the_beginning_of_a_call_at_the_end_of_a_cut_answer_is_not_shown():
    assert (
        expect_result(run_loop([make_cut_reply("Let me look. <|tool_")], STRICT_LIMITS)[-1]).text
        == f"Let me look.\n\n{NOTE}"
    )


PIECES = st.lists(st.text(st.sampled_from("ab .\n`*é🎉"), max_size=12), min_size=1, max_size=7)


@settings(deadline=None)
@given(PIECES, st.integers(1, 9), st.integers(1, 3))
def test_every_character_of_an_answer_arrives_once_wherever_it_was_cut(pieces, steps, canvases):
    """The model continues the text it gets, as an endpoint does: it writes whitespace at the cut again."""
    answer = "".join(pieces)
    cuts = list(itertools.accumulate(map(len, pieces)))
    loop = run_turn(PROMPT, TOOLS, TurnLimits(steps, 1024), False)
    event: LoopEvent = next(loop)
    for end in cuts:
        if isinstance(event, TurnResult):
            break
        text_so_far = ""
        if expect_model_call(event).continue_final_message:
            text_so_far = expect_model_call(event).messages[-1].text
        assert answer.startswith(text_so_far)
        rest = answer[len(text_so_far) : end]
        last = end == cuts[-1]
        event = loop.send(
            replace(make_cut_reply(rest, 256 * canvases), finish_reason="stop" if last else "length")
        )
    if isinstance(event, TurnResult) and event.ending == "answered":
        assert event.text == answer.strip()
    elif isinstance(event, TurnResult) and event.has_more:
        assert answer.strip().startswith(event.new_messages[-1].text)


def test_an_answer_is_continued_only_within_the_token_budget():
    story = "word " * 200  # 250 tokens
    assert (
        len(run_loop([make_cut_reply(story), make_reply("The end.")], replace(LIMITS, token_budget=260))) == 3
    )
    for token_budget, thinking in [(250, ""), (260, "hm " * 20)]:
        end = expect_result(
            run_loop(
                [replace(make_cut_reply(story), reasoning=thinking)],
                replace(LIMITS, token_budget=token_budget),
            )[-1]
        )
        assert (end.text, end.has_more) == (f"{story.strip()}\n\n{NOTE}", True)


def test_a_replayed_turn_repeats_its_steps_despite_less_budget_or_another_endpoint():
    replies = [make_weather_reply(), make_cut_reply("12 deg"), make_weather_reply(2), make_reply("It is 12.")]
    fewer = replace(LIMITS, token_budget=0, can_continue=False, replayed_steps=3)
    kinds = [type(event) for event in run_loop(replies)]
    assert [type(event) for event in run_loop(replies, fewer)] == kinds
    *_, last, _ = run_loop(replies, fewer)
    assert expect_model_call(last).tool_choice == "none"  # from here on nothing fits
