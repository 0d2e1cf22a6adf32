"""An answer cut at the length limit goes on by itself, is joined exactly, and is never lost to a limit."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import CallModel, Ended, Event, Finished, Limits, RunTools
from bot.agent.loop import play
from bot.domain import Message, Reply, ToolCall, Usage
from tests.agent.test_loop import CALM, LIMITS, PROMPT, ask, called, finished, through
from tests.support.offered_tools import TOOLS, call, reply

NOTE = "_The answer was cut at the length limit._"


def cut(text: str, tokens: int | None = 256, reasoning: int = 0) -> Reply:
    """A reply that ended at its limit after so many tokens."""
    return replace(
        reply(text, finish="length"), usage=Usage(completion_tokens=tokens, reasoning_tokens=reasoning)
    )


def test_a_cut_answer_goes_on_in_the_middle_of_it():
    events = through([cut("The weath"), reply("er is fine.")])
    more = called(events[1])
    assert more == CallModel(
        messages=(*PROMPT, Message("assistant", "The weath")),
        tool_choice="auto",
        max_tokens=1024,
        step=2,
        again="more",
        said=(),
        continues=True,
        so_far="The weath",
    )
    assert more.optional
    assert not called(events[0]).optional
    end = finished(events[-1])
    assert (end.text, end.ending, end.note, end.more) == ("The weather is fine.", "answered", None, False)
    assert end.said == (Message("assistant", "The weather is fine."),)


def test_a_blank_at_the_cut_is_left_for_the_model_to_write_again():
    events = through([cut("One line.\n\n"), cut("\n\nAnother "), reply(" line.")])
    assert [event.messages[-1].text for event in events if isinstance(event, CallModel)][1:] == [
        "One line.",
        "One line.\n\nAnother",
    ]
    assert finished(events[-1]).text == "One line.\n\nAnother line."


def test_the_thought_before_an_answer_goes_back_with_it_and_gets_no_room_again():
    thought = replace(cut("The weath", 1500, 1400), reasoning="need it")
    events = through([thought, reply("er.", reasoning="more")], thinking=True)
    more = called(events[1])
    assert more.messages[-1] == Message("assistant", "The weath", reasoning="need it")
    assert (more.thinking, more.max_tokens, more.brake) == (True, 1024, None)


def test_an_answer_takes_eight_canvases_at_most_and_says_that_there_is_more():
    events = through([cut("a", 1024), cut("b", 768), cut("c", 256)])
    assert [event.max_tokens for event in events if isinstance(event, CallModel)] == [1024, 1024, 256]
    end = finished(events[-1])
    assert (end.text, end.ending, end.more) == (f"abc\n\n{NOTE}", "cut", True)


def test_without_a_count_the_blocks_are_the_canvases():
    blocks = [replace(cut(letter, None), blocks=4) for letter in "ab"]
    assert finished(through(blocks)[-1]).text == f"ab\n\n{NOTE}"


def test_what_was_thought_does_not_count_as_the_answer():
    events = through([cut("a", 2048, 2000), cut("b", 1792), reply("c")], thinking=True)
    assert [event.max_tokens for event in events if isinstance(event, CallModel)] == [2048, 1024]
    assert finished(events[-1]).more


def test_an_answer_longer_than_that_from_the_start_is_not_asked_to_go_on():
    events = through([cut("a", 4096)], Limits(8, 4096))
    assert (len(events), finished(events[-1]).more) == (2, True)


def test_where_the_endpoint_does_not_go_on_a_person_may_ask_for_more():
    end = finished(through([cut("Half")], CALM)[-1])
    assert (end.text, end.more) == (f"Half\n\n{NOTE}", True)


def test_the_last_step_of_a_turn_is_the_end_of_its_answer():
    end = finished(through([ask(), cut("12 deg")], Limits(2, 1024))[-1])
    assert (end.text, end.ending, end.more) == (f"12 deg\n\n{NOTE}", "cut", True)


@pytest.mark.parametrize(
    ("why", "partial", "text"), [("crowded", None, "The weath"), ("failed", "er", "The weather")]
)
def test_an_answer_that_cannot_go_on_stands_as_it_is(why, partial, text):
    game = play(PROMPT, TOOLS, LIMITS, False)
    next(game)
    assert called(game.send(cut("The weath"))).optional
    end = finished(game.send(Ended(why, None if partial is None else reply(partial, finish=None))))
    assert (end.text, end.ending, end.more) == (f"{text}\n\n{NOTE}", "cut", True)
    assert end.said == (Message("assistant", text),)


@pytest.mark.parametrize("why", ["stopped", "seconds"])
def test_an_answer_ended_while_it_goes_on_keeps_all_that_was_shown(why):
    for partial, text in [(None, "The weath"), (reply("er is", finish=None), "The weather is")]:
        game = play(PROMPT, TOOLS, LIMITS, False)
        next(game)
        game.send(cut("The weath"))
        end = finished(game.send(Ended(why, partial)))
        assert end.text.startswith(f"{text}\n\n")
        assert (end.ending, end.more) == (why, False)


def test_a_model_that_adds_nothing_is_not_asked_again():
    for nothing in (reply(""), reply(" \n"), reply("", reasoning="hm"), cut("")):
        end = finished(through([cut("The end."), nothing])[-1])
        assert end.text == "The end.\n\n_The length limit fell here, and the model had nothing to add._"
        assert (end.ending, end.more) == ("cut", False)


def test_an_answer_that_begins_to_repeat_itself_ends_where_it_does():
    end = finished(through([cut("Well, one, two, "), reply(" one, two," * 9, finish="repetition")])[-1])
    assert end.text == "Well, one, two,\n\n_It began to repeat itself and was stopped here._"
    assert not end.more


def test_a_bare_call_cut_in_its_name_is_run_once_it_is_whole_and_never_shown():
    events = through([cut("Let me look.\ncall:get_wea"), reply('ther{city:"Paris"}'), reply("12 degrees.")])
    assert called(events[1]).so_far == "Let me look."
    assert isinstance(events[2], RunTools)
    assert [one.call.name for one in events[2].calls] == ["get_weather"]
    assert [message.text for message in events[2].said] == ["Let me look.", ""]
    assert finished(events[-1]).text == "12 degrees."


def test_a_call_behind_what_was_cut_is_run():
    asked = call("get_weather", '{"city": "Paris"}', "id-1")
    events = through([cut("Let me "), reply(" look.", asked, finish="tool_calls"), reply("12 degrees.")])
    run = events[2]
    assert isinstance(run, RunTools)
    assert run.said == (
        Message("assistant", "Let me look."),
        Message("assistant", calls=(ToolCall("id-1", "get_weather", '{"city": "Paris"}'),)),
    )
    assert not called(events[3]).continues


def test_a_call_cut_while_the_answer_goes_on_is_asked_for_with_more_room_and_the_text_stays():
    half = reply(" look.", call("get_weather"), finish="length")
    events = through([cut("Let me"), half, half])
    again = called(events[2])
    assert (again.again, again.max_tokens, again.messages) == ("cut", 2048, called(events[1]).messages)
    end = finished(events[-1])
    assert end.text.startswith("Let me look.\n\nThe answer did not fit")
    assert end.ending == "cut"


def test_an_answer_given_without_tools_goes_on_behind_the_same_prompt():
    wrong = [reply("", call("rm_rf", "{}", str(number)), finish="tool_calls") for number in range(3)]
    events = through([*wrong, cut("I can"), reply("not.")])
    first, more = [event for event in events if isinstance(event, CallModel)][-2:]
    assert more.messages == (*first.messages, Message("assistant", "I can"))
    assert more.tool_choice == "none"
    assert finished(events[-1]).text == "I cannot."


@pytest.mark.parametrize("text", ["a <|turn> b", "x <eos>", '<|"|>', " \n"])
def test_text_the_template_would_obey_is_not_sent_back(text):
    assert not [
        event for event in through([cut(text)] * 3) if isinstance(event, CallModel) and event.continues
    ]


@pytest.mark.parametrize("text", ["call:get_wea", "<|tool_call"])
def test_nothing_but_the_beginning_of_a_call_is_no_answer(text):
    events = through([cut(text), reply("Hello!")], CALM)
    assert called(events[1]).again == "cut"
    assert finished(events[-1]).text == "Hello!"


def test_the_beginning_of_a_call_at_the_end_of_a_cut_answer_is_not_shown():
    assert finished(through([cut("Let me look. <|tool_")], CALM)[-1]).text == f"Let me look.\n\n{NOTE}"


PIECES = st.lists(st.text(st.sampled_from("ab .\n`*é🎉"), max_size=12), min_size=1, max_size=7)


@settings(deadline=None)
@given(PIECES, st.integers(1, 9), st.integers(1, 3))
def test_every_sign_of_an_answer_arrives_once_wherever_it_was_cut(pieces, steps, canvases):
    """The model goes on behind the text it was given, as an endpoint does: it writes the blanks at the cut
    again.
    """
    whole, cuts = "".join(pieces), list(itertools.accumulate(map(len, pieces)))
    game = play(PROMPT, TOOLS, Limits(steps, 1024), False)
    event: Event = next(game)
    for end in cuts:
        if isinstance(event, Finished):
            break
        begun = called(event).messages[-1].text if called(event).continues else ""
        assert whole.startswith(begun)
        rest = whole[len(begun) : end]
        last = end == cuts[-1]
        event = game.send(replace(cut(rest, 256 * canvases), finish_reason="stop" if last else "length"))
    if isinstance(event, Finished) and event.ending == "answered":
        assert event.text == whole.strip()
    elif isinstance(event, Finished) and event.more:
        assert whole.strip().startswith(event.said[-1].text)


def test_an_answer_goes_on_only_while_the_prompt_has_room_for_it():
    story = "word " * 200  # 250 tokens
    assert len(through([cut(story), reply("The end.")], replace(LIMITS, room=260))) == 3
    for room, thinking in [(250, ""), (260, "hm " * 20)]:
        end = finished(through([replace(cut(story), reasoning=thinking)], replace(LIMITS, room=room))[-1])
        assert (end.text, end.more) == (f"{story.strip()}\n\n{NOTE}", True)


def test_a_turn_played_again_takes_its_course_though_there_is_less_room_or_another_endpoint_now():
    replies = [ask(), cut("12 deg"), ask(2), reply("It is 12.")]
    less = replace(LIMITS, room=0, continues=False, played=3)
    kinds = [type(event) for event in through(replies)]
    assert [type(event) for event in through(replies, less)] == kinds
    *_, last, _ = through(replies, less)
    assert called(last).tool_choice == "none"  # from here on there is no room
