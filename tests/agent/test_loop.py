import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.events import (
    CallModel,
    LoopEvent,
    LoopInput,
    RunTools,
    TurnInterruption,
    TurnLimits,
    TurnResult,
)
from bot.agent.history import estimate_tokens
from bot.agent.loop import run_turn
from bot.agent.notices import OUT_OF_TIME
from bot.domain import Message, Reply, ToolCall, ToolResult
from tests.support.offered_tools import TOOLS, make_call, make_reply
from tests.support.recorded_endpoint import (
    RecordedResponse,
    ReplayServer,
    ignore,
    load_response,
    make_request,
    make_response,
    open_client,
)

PROMPT = (Message("system", "Be kind."), Message("user", "weather in Paris?"))
LIMITS = TurnLimits(max_steps=8, max_tokens=1024)
# Thinking is never switched on, and a cut answer is not continued.
STRICT_LIMITS = TurnLimits(max_steps=8, max_tokens=1024, may_think=False, can_continue=False)
PARIS = '{"city": "Paris"}'
Loop = Generator[LoopEvent, LoopInput, None]


def make_weather_reply(number: int = 1, city: str = "Paris", text: str = "") -> Reply:
    """A reply that calls get_weather, with an id of its own."""
    call = ToolCall(f"id-{number}", "get_weather", json.dumps({"city": city}))
    return make_reply(text, call, finish="tool_calls")


def start_loop(limits: TurnLimits = LIMITS, *, thinking: bool = False) -> tuple[Loop, CallModel]:
    loop = run_turn(PROMPT, TOOLS, limits, thinking)
    event = next(loop)
    assert isinstance(event, CallModel)
    return loop, event


def make_results(event: LoopEvent, text: str = "12 degrees") -> tuple[ToolResult, ...]:
    assert isinstance(event, RunTools)
    return tuple(ToolResult(checked.call, text, "ok") for checked in event.calls)


def expect_result(event: LoopEvent) -> TurnResult:
    assert isinstance(event, TurnResult)
    return event


def expect_model_call(event: LoopEvent) -> CallModel:
    assert isinstance(event, CallModel)
    return event


def run_loop(
    replies: Sequence[Reply], limits: TurnLimits = LIMITS, *, thinking: bool = False
) -> list[LoopEvent]:
    """All events of a turn in which every tool returns 12 degrees."""
    next_replies = iter(replies)
    loop = run_turn(PROMPT, TOOLS, limits, thinking)
    events = [next(loop)]
    while not isinstance(events[-1], TurnResult):
        last = events[-1]
        if isinstance(last, CallModel):
            events.append(loop.send(next(next_replies)))
        else:
            events.append(loop.send(make_results(last)))
    return events


def test_an_answer_ends_the_turn():
    loop, first = start_loop()
    assert first == CallModel(PROMPT, "auto", 1024, 1, None, ())
    assert loop.send(make_reply("Hello!")) == TurnResult(
        "Hello!", "answered", None, (Message("assistant", "Hello!"),)
    )
    with pytest.raises(StopIteration):
        loop.send(make_reply("more"))


def test_text_and_calls_become_two_messages_followed_by_the_results():
    events = run_loop([make_weather_reply(text="Let me look.\n"), make_reply("It is 12 degrees.")])
    call = ToolCall("id-1", "get_weather", PARIS)
    assert isinstance(events[1], RunTools)
    assert events[1].new_messages == (
        Message("assistant", "Let me look."),
        Message("assistant", calls=(call,)),
    )
    assert [(checked.call, checked.arguments) for checked in events[1].calls] == [(call, {"city": "Paris"})]
    second = expect_model_call(events[2])
    assert second.new_messages == (Message("tool", "12 degrees", call_id="id-1"),)
    assert second.messages == (*PROMPT, *events[1].new_messages, *second.new_messages)
    assert second.step == 2


def test_reasoning_is_sent_back_within_the_turn_with_the_first_message():
    first = make_reply("", make_call("noargs"), finish="tool_calls", reasoning="need it")
    second = make_reply("Let me see.", make_call("noargs", id="b"), finish="tool_calls", reasoning="more")
    events = run_loop([first, second, make_reply("Done.")])
    assert [(message.text, message.reasoning) for message in events[1].new_messages] == [("", "need it")]
    assert [(message.text, message.reasoning) for message in events[3].new_messages] == [
        ("Let me see.", "more"),
        ("", None),
    ]


def test_a_refused_call_gets_its_result_at_once_and_the_others_run():
    reply = make_reply(
        "", make_call("get_weather", PARIS, "a"), make_call("rm_rf", "{}", "b"), finish="tool_calls"
    )
    loop, _ = start_loop()
    event = loop.send(reply)
    assert isinstance(event, RunTools)
    assert [checked.call.name for checked in event.calls] == ["get_weather"]
    assert [(result.outcome, result.refusal) for result in event.refused] == [("refused", "no_tool")]
    assert [call.id for call in event.new_messages[0].calls] == ["a", "b"]
    assert event.new_messages[1] == Message("tool", event.refused[0].text, call_id="b")
    assert [
        message.call_id for message in expect_model_call(loop.send(make_results(event))).messages[-2:]
    ] == ["b", "a"]


def test_results_may_come_in_any_order_and_a_missing_one_becomes_unknown():
    loop, _ = start_loop()
    calls = [make_call("get_weather", f'{{"city": "{city}"}}', city) for city in ("Paris", "Rome", "Oslo")]
    event = loop.send(make_reply("", *calls, finish="tool_calls"))
    after = expect_model_call(loop.send(tuple(reversed(make_results(event)))[:2]))
    assert [(message.call_id, message.text) for message in after.new_messages] == [
        ("Paris", "The outcome of this call is unknown."),
        ("Rome", "12 degrees"),
        ("Oslo", "12 degrees"),
    ]


def test_an_empty_reply_is_retried_once_with_the_same_messages():
    events = run_loop([make_reply(""), make_reply("Hello!")])
    assert (
        expect_model_call(events[1]).retry_reason,
        expect_model_call(events[1]).messages,
        expect_model_call(events[1]).step,
    ) == (
        "empty",
        PROMPT,
        2,
    )
    assert expect_result(events[-1]).ending == "answered"


def test_a_second_empty_reply_ends_the_turn_and_says_so():
    end = expect_result(run_loop([make_reply(""), make_reply(" ")], STRICT_LIMITS)[-1])
    assert end.ending == "empty"
    assert "usable answer" in end.text
    assert end.new_messages == (Message("assistant", end.text),)


def test_an_empty_reply_after_tools_still_lists_the_findings():
    end = expect_result(run_loop([make_weather_reply(), make_reply(""), make_reply("")], STRICT_LIMITS)[-1])
    assert "What I found so far:\n- get_weather: `12 degrees`" in end.text


def test_a_cut_call_is_retried_once_with_a_higher_limit_and_never_run():
    cut = make_reply("Let me look.", make_call("get_weather", PARIS), finish="length")
    events = run_loop([cut, make_weather_reply(), make_reply("Done.")], TurnLimits(8, 1000))
    retry = expect_model_call(events[1])
    assert (retry.retry_reason, retry.max_tokens, retry.messages, retry.new_messages) == (
        "cut",
        12 * 256,
        PROMPT,
        (),
    )
    assert expect_model_call(events[3]).max_tokens == 1024


def test_a_call_that_was_cut_gets_twice_the_limit_if_that_is_more():
    cut = make_reply("", make_call("get_weather", PARIS), finish="length")
    events = run_loop([cut, make_weather_reply(), make_reply("Done.")], TurnLimits(8, 2048))
    assert expect_model_call(events[1]).max_tokens == 4096


def test_a_call_cut_twice_ends_the_turn_with_its_narration():
    cut = make_reply("Look:\n```", make_call("get_weather", PARIS), finish="length")
    events = run_loop([cut, cut])
    end = expect_result(events[-1])
    assert not any(isinstance(event, RunTools) for event in events)
    assert (end.ending, end.text[:12]) == ("cut", "Look:\n```\n``")
    assert "ask an admin to raise the limit." in end.text


def test_an_answer_cut_at_the_limit_ends_with_a_note():
    end = expect_result(run_loop([make_reply("One\n```py\nx = 1", finish="length")], STRICT_LIMITS)[-1])
    assert end.text == "One\n```py\nx = 1\n```\n\n_I've reached the limit for one answer._"
    assert (end.ending, end.note) == ("cut", "I've reached the limit for one answer.")
    assert end.new_messages == (Message("assistant", "One\n```py\nx = 1"),)


def test_calls_that_keep_failing_end_in_an_answer_without_tools():
    replies = [
        make_reply("", make_call("rm_rf", "{}", str(number)), finish="tool_calls") for number in range(3)
    ]
    events = run_loop([*replies, make_reply("I cannot do that.")])
    model_calls = [event for event in events if isinstance(event, CallModel)]
    assert [event.tool_choice for event in model_calls] == ["auto", "auto", "auto", "none"]
    assert model_calls[-1].messages[-1].role == "user"
    assert model_calls[-1].messages[-1] not in [message for event in events for message in event.new_messages]
    assert expect_result(events[-1]).text == "I cannot do that."


def test_the_last_step_offers_no_tools_and_its_answer_says_why():
    events = run_loop(
        [make_weather_reply(1, "Paris"), make_weather_reply(2, "Rome"), make_reply("12 in both.")],
        TurnLimits(3, 1024),
    )
    model_calls = [event for event in events if isinstance(event, CallModel)]
    assert [event.tool_choice for event in model_calls] == ["auto", "auto", "none"]
    end = expect_result(events[-1])
    assert end.ending == "steps"
    assert end.text == "12 in both.\n\n_I've used all 3 steps allowed for one answer._"


def test_a_last_step_without_text_ends_with_the_findings():
    last = make_reply("", make_call("get_weather", PARIS, "z"), finish="tool_calls")
    end = expect_result(run_loop([make_weather_reply(1), last], TurnLimits(2, 1024))[-1])
    assert end.ending == "steps"
    assert end.text.startswith("I've used all 2 steps allowed for one answer.\n\nWhat I found so far:")


def test_findings_are_short_few_and_cannot_be_tapped():
    loop, _ = start_loop(TurnLimits(6, 1024))
    event: LoopEvent = loop.send(make_weather_reply(0, "0"))
    for number in range(1, 5):
        loop.send(make_results(event, f"{number} `x` https://evil.test\n" + "y" * 999))
        event = loop.send(make_weather_reply(number, str(number)))
    loop.send(make_results(event))
    end = expect_result(loop.send(make_reply("")))
    findings = end.text.splitlines()[3:]
    assert len(findings) == 3
    assert findings[1].startswith("- get_weather: `4 'x' https://evil.test yyy")
    assert all(len(line) < 340 and line.count("`") == 2 for line in findings)


def test_a_repeated_call_is_one_finding_with_its_latest_result():
    loop, _ = start_loop(STRICT_LIMITS)
    loop.send(make_results(loop.send(make_weather_reply(1)), "11 degrees"))
    loop.send(make_results(loop.send(make_weather_reply(2, "Rome")), "20 degrees"))
    loop.send(make_results(loop.send(make_weather_reply(3)), "12 degrees"))
    loop.send(make_reply(""))
    end = expect_result(loop.send(make_reply("")))
    assert end.text.endswith("What I found so far:\n- get_weather: `20 degrees`\n- get_weather: `12 degrees`")


def test_words_beside_a_call_that_nobody_runs_any_more_are_no_answer():
    loop, event = start_loop(STRICT_LIMITS)
    for number in range(1, 6):
        assert event.tool_choice == "auto"
        asked = loop.send(make_weather_reply(number, text="Let me check."))
        event = expect_model_call(loop.send(make_results(asked)))
    assert event.tool_choice == "none"
    end = expect_result(loop.send(make_weather_reply(6, text="Let me check.")))
    assert end.ending == "empty"
    assert end.text.startswith("Let me check.\n\nI didn't get a usable answer this time.")
    assert end.text.endswith("What I found so far:\n- get_weather: `12 degrees`")


def test_a_single_allowed_step_answers_without_tools_and_without_a_note():
    events = run_loop([make_reply("Hello!")], TurnLimits(1, 1024))
    assert expect_model_call(events[0]).tool_choice == "none"
    assert expect_model_call(events[0]).messages == PROMPT
    assert expect_result(events[-1]).ending == "answered"


def test_results_are_shortened_to_the_token_budget_and_then_an_answer_is_requested():
    limits = TurnLimits(8, 1024, token_budget=1500)
    loop, _ = start_loop(limits)
    events: list[LoopEvent] = [loop.send(make_weather_reply(1, "Paris"))]
    for number in range(2, 5):
        events.append(loop.send(make_results(events[-1], "word " * 1600)))
        if expect_model_call(events[-1]).tool_choice == "none":
            break
        events.append(loop.send(make_weather_reply(number, str(number))))
    added = expect_model_call(events[-1]).messages[len(PROMPT) : -1]
    assert estimate_tokens(added) <= 1500
    assert added[-1].text.endswith("characters left out]")
    assert expect_model_call(events[-1]).messages[-1].text.startswith("(No tool can be used any more")
    end = expect_result(loop.send(make_reply("That is what I found.")))
    assert (end.text, end.ending) == ("That is what I found.", "answered")


def test_reasoning_that_does_not_fit_the_token_budget_is_not_sent_back():
    thought = replace(make_weather_reply(text="Let me look."), reasoning="hm " * 400)  # 300 tokens
    for token_budget, reasoning in [(400, "hm " * 400), (250, None)]:
        events = run_loop(
            [thought, make_reply("Done.")], TurnLimits(8, 1024, token_budget=token_budget), thinking=True
        )
        narration, *_ = expect_model_call(events[-2]).messages[len(PROMPT) :]
        assert (narration.text, narration.reasoning) == ("Let me look.", reasoning)


def test_a_turn_without_token_budget_is_answered_without_tools():
    events = run_loop([make_reply("Hello!")], TurnLimits(8, 1024, token_budget=0))
    assert (expect_model_call(events[0]).tool_choice, expect_model_call(events[0]).messages) == (
        "none",
        PROMPT,
    )


def test_the_same_call_runs_once_a_reply_and_twice_a_turn():
    twin = make_reply(
        "", make_call("get_weather", PARIS, "a"), make_call("get_weather", PARIS, "b"), finish="tool_calls"
    )
    events = run_loop([twin, make_weather_reply(2), make_weather_reply(3), make_reply("Done.")])
    runs = [event for event in events if isinstance(event, RunTools)]
    assert [(len(event.calls), len(event.refused)) for event in runs] == [(1, 1), (1, 0), (0, 1)]
    assert "already made" in runs[0].refused[0].text
    assert runs[0].refused[0].refusal == "repeat"


def test_a_turn_out_of_time_keeps_its_text_with_a_note():
    loop, _ = start_loop()
    end = expect_result(
        loop.send(TurnInterruption("seconds", make_reply("Half an ans <|tool_call>call:", finish=None)))
    )
    assert end.text == "Half an ans\n\n_I ran out of time here._"
    assert (end.ending, end.new_messages) == ("seconds", (Message("assistant", "Half an ans"),))


@pytest.mark.parametrize("partial", [None, make_reply("")])
def test_a_turn_out_of_time_without_text_lists_the_findings(partial):
    loop, _ = start_loop(TurnLimits(2, 1024))
    loop.send(make_results(loop.send(make_weather_reply())))
    end = expect_result(loop.send(TurnInterruption("seconds", partial)))
    assert end.ending == "seconds"
    assert end.text.startswith(f"{OUT_OF_TIME}\n\nWhat I found so far:")


def test_a_stopped_turn_keeps_what_was_shown():
    loop, _ = start_loop()
    end = expect_result(loop.send(TurnInterruption("stopped", make_reply("Half"))))
    assert (end.text, end.ending, end.note) == ("Half\n\n_Stopped._", "stopped", "Stopped.")
    loop, _ = start_loop()
    assert expect_result(loop.send(TurnInterruption("stopped", None))).text == "Stopped."


def test_a_turn_without_tools_never_offers_any():
    loop = run_turn(PROMPT, {}, LIMITS, False)
    assert expect_model_call(next(loop)).tool_choice == "none"
    assert expect_result(loop.send(make_reply("Hi", make_call("noargs")))).text == "Hi"


def test_an_event_accepts_only_its_own_kind_of_answer():
    loop, _ = start_loop()
    with pytest.raises(TypeError):
        loop.send(())
    loop, _ = start_loop()
    event = loop.send(make_weather_reply())
    assert isinstance(event, RunTools)
    with pytest.raises(TypeError):
        loop.send(make_reply("x"))


REPLIES = st.lists(
    st.one_of(
        st.builds(
            make_weather_reply,
            st.integers(1, 3),
            st.sampled_from(["Paris", "Rome"]),
            st.sampled_from(["", "Look."]),
        ),
        st.builds(
            make_reply,
            st.sampled_from(["", "Hi", "call:noargs{}"]),
            finish=st.sampled_from(["stop", "length", None]),
        ),
        st.just(make_reply("", make_call("rm_rf"), finish="tool_calls")),
    ),
    min_size=12,
    max_size=12,
)


@settings(deadline=None)
@given(REPLIES, st.integers(1, 8))
def test_a_turn_run_again_gives_the_same_events_within_its_steps(replies, steps):
    events = run_loop(replies, TurnLimits(steps, 1024))
    assert run_loop(replies, TurnLimits(steps, 1024)) == events
    assert sum(isinstance(event, CallModel) for event in events) <= steps


@settings(deadline=None)
@given(REPLIES, st.integers(1, 8))
def test_new_messages_are_complete_in_order_and_valid_for_any_template(replies, steps):
    events = run_loop(replies, TurnLimits(steps, 1024))
    messages: list[Message] = []
    for event in events:
        messages.extend(event.new_messages)
        if isinstance(event, CallModel):
            assert event.messages[: len(PROMPT) + len(messages)] == (*PROMPT, *messages)
            added = [message.role for message in event.messages[len(PROMPT) + len(messages) :]]
            if event.continue_final_message:
                assert added.pop() == "assistant"  # the cut answer that the model continues
            assert added in ([], ["user"])  # the hint that no tool is left
    assert all(not (message.text and message.calls) for message in messages if message.role == "assistant")
    assert messages[-1].role == "assistant"
    assert messages[-1].text
    open_calls: set[str | None] = set()
    for message in messages:
        if message.role == "tool":
            open_calls.remove(message.call_id)
        else:
            assert not open_calls
            open_calls |= {call.id for call in message.calls}
    assert not open_calls


async def run_recorded_turn(
    responses: Sequence[RecordedResponse], run: Callable[[RunTools], tuple[ToolResult, ...]]
) -> tuple[TurnResult, ReplayServer]:
    """A complete turn over real HTTP: the real client against recorded answers."""
    replay = ReplayServer(responses)
    loop = run_turn(PROMPT, TOOLS, LIMITS, False)
    event = next(loop)
    async with open_client(replay) as llm:
        while not isinstance(event, TurnResult):
            if isinstance(event, RunTools):
                event = loop.send(run(event))
            else:
                request = make_request(
                    messages=event.messages, tool_choice=event.tool_choice, max_tokens=event.max_tokens
                )
                event = loop.send(await llm.call(request, ignore, ignore))
    return event, replay


@pytest.mark.parametrize(
    ("names", "text", "roles"),
    [
        (["02-tool-stream", "13-multi-step-think-stream"], "It is sunny.", ["user", "assistant", "tool"]),
        (
            ["02-tool-text-before-stream", "01-chat-stream"],
            "echo: Say hi",
            ["user", "assistant", "assistant", "tool"],
        ),
        (["03-tool-cut-max-tokens-14-stream", "01-chat-stream"], "echo: Say hi", ["user"]),
        (["01-chat-empty-answer-stream", "01-chat-stream"], "echo: Say hi", ["user"]),
        (["03-tool-duplicate-key-stream", "17-burst-chat"], "echo: Say hi", ["user", "assistant", "tool"]),
        (
            ["03-tool-as-plain-text", "04-open-channel-answer-stream"],
            "It is sunny.",
            ["user", "assistant", "tool"],
        ),
        (["17-burst-parallel", "17-burst-think"], "Hello!", ["user", "assistant", "tool", "tool", "tool"]),
    ],
)
async def test_a_turn_of_recorded_answers_ends_in_text(names, text, roles):
    end, replay = await run_recorded_turn([load_response(name) for name in names], make_results)
    assert end.text == text
    assert [message["role"] for message in replay.requests[-1]["messages"]][1:] == roles


async def test_a_turn_ends_even_if_the_model_only_requests_tools():
    cities: Iterator[int] = iter(range(100))
    answers = [make_response(f"call:get_weather{{city:{next(cities)}}}") for _ in range(8)]
    end, replay = await run_recorded_turn(answers, make_results)
    assert len(replay.requests) == 8
    assert end.ending == "steps"
    assert "call:" not in end.text
