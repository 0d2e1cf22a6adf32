import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.reply_parser import (
    AnswerReply,
    CutReply,
    EmptyReply,
    ReplyVerdict,
    ToolCallsReply,
    extract_visible_text,
    is_blank,
    parse_reply,
)
from bot.agent.sanitize import CONTROL_TOKEN
from bot.agent.tool_calls import CheckedCall
from bot.domain import Reply, ToolCall, ToolResult
from tests.support.offered_tools import (
    PARIS,
    TOOLS,
    get_refusal,
    list_checked_calls,
    make_call,
    make_reply,
    make_tool,
)
from tests.support.recorded_endpoint import ReplayServer, ignore, load_response, make_request, open_client


async def parse_recorded(name: str) -> ReplyVerdict:
    """The verdict on a recorded answer, read by the real client."""
    async with open_client(ReplayServer([load_response(name)])) as llm:
        return parse_reply(await llm.call(make_request(), ignore, ignore), TOOLS)


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("01-chat-stream", "echo: Say hi", None),
        (
            "01-chat-cut-by-max-tokens",
            "слово слово слово слово слово",
            "I've reached the limit for one answer.",
        ),
        ("01-repetition-stop", "ab ab", "I started to repeat myself, so I stopped here."),
        ("02-tool-choice-required-text-answer", "no tool", None),
        ("03-tool-garbage", "after", None),
        ("04-open-channel-answer-stream", "It is sunny.", None),
        ("04-think-off-but-model-thinks", "Hello!", None),
        ("04-think-on-stream", "Hello!", None),
        ("04-think-thought-without-any-marker", "I think so.\nAnswer", None),
        ("05-leak-string-delim", 'Hello "quoted" there', None),
        ("05-leak-tool-end-only-stream", "Hello  there  x", None),
        ("05-leak-tool-end-only", "x", None),
        ("05-leak-turn-token-midtext-stream", "Hello", None),
        ("13-multi-step-think-stream", "It is sunny.", None),
        ("17-burst-think", "Hello!", None),
    ],
)
async def test_a_recorded_answer_is_shown_without_markup(name, text, note):
    assert await parse_recorded(name) == AnswerReply(text, note)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("02-tool-stream", PARIS),
        ("02-tool-choice-named", PARIS),
        ("02-tool-noargs", [("noargs", {})]),
        ("02-tool-null", [("get_weather", {"city": "null"})]),
        ("02-tool-parallel-false", [("get_weather", {"city": "Paris", "days": 1})]),
        (
            "02-tool-parallel-stream",
            [
                ("get_weather", {"city": "Paris", "days": 1}),
                ("get_weather", {"city": "Rome"}),
                ("noargs", {}),
            ],
        ),
        ("03-tool-as-plain-text", PARIS),
        ("03-tool-duplicate-key", [("get_weather", {"city": "Rome"})]),
        ("03-tool-json-args-stream", [("get_weather", {"city": "Paris", "days": 2})]),
        ("03-tool-unclosed-then-turn-end-stream", PARIS),
        ("04-open-channel-tool-burst", [("get_weather", {"city": "Rome"})]),
        ("04-think-on-tool-stream", PARIS),
        ("17-burst-parallel", None),
    ],
)
async def test_a_recorded_call_is_ready_to_run(name, calls):
    verdict = list_checked_calls(await parse_recorded(name))
    assert calls is None or verdict == calls


async def test_text_around_a_call_is_kept_apart_from_it():
    for name, text in [
        ("02-tool-text-before-stream", "Let me check."),
        ("02-tool-text-after-stream", "Done, told you."),
    ]:
        verdict = await parse_recorded(name)
        assert isinstance(verdict, ToolCallsReply)
        assert verdict.narration == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "02-tool-unknown-tool",
            "There is no tool called rm_rf. There are: get_weather, noargs, send_message.",
        ),
        ("03-tool-no-braces", "get_weather needs city"),
        ("02-tool-wrong-types", "must be"),
        ("03-tool-duplicate-key-stream", "could not be read. Call it again, with each argument once."),
    ],
)
async def test_a_recorded_call_that_cannot_run_is_refused_with_its_reason(name, expected):
    assert expected in get_refusal(await parse_recorded(name))


@pytest.mark.parametrize(
    "name", ["03-tool-cut-max-tokens-08-stream", "03-tool-cut-max-tokens-14-stream", "17-burst-tool-cut"]
)
async def test_a_call_of_a_cut_reply_is_never_run(name):
    assert await parse_recorded(name) == CutReply("call", "")


async def test_a_thought_of_a_cut_reply_is_no_answer():
    assert await parse_recorded("04-think-cut-by-max-tokens") == CutReply("thought", "")


@pytest.mark.parametrize(
    "name", ["01-chat-empty-answer-stream", "05-leak-tool-response-first", "03-tool-cut-max-tokens-03"]
)
async def test_a_recorded_answer_without_text_is_empty(name):
    assert isinstance(await parse_recorded(name), EmptyReply)


@pytest.mark.parametrize(
    "name", ["call:get_weather", "GET_WEATHER", ":get_weather", "functions.get-weather", "`get_weather`"]
)
def test_a_name_that_is_surely_meant_is_repaired(name):
    assert (
        list_checked_calls(parse_reply(make_reply("", make_call(name, '{"city": "Paris"}')), TOOLS)) == PARIS
    )


def test_an_ambiguous_tool_name_is_not_guessed():
    tools = {"Clock": TOOLS["noargs"], "clock": TOOLS["noargs"]}
    assert "no tool called CLOCK" in get_refusal(parse_reply(make_reply("", make_call("CLOCK")), tools))


@pytest.mark.parametrize("arguments", ['{"city": "Rome", "city": "Paris"}', '"{\\"city\\": \\"Paris\\"}"'])
def test_arguments_that_are_surely_meant_are_repaired(arguments):
    assert (
        list_checked_calls(parse_reply(make_reply("", make_call("get_weather", arguments)), TOOLS)) == PARIS
    )


DEEP = '{"city": ' + "[" * 40 + "]" * 40 + "}"


@pytest.mark.parametrize(
    "arguments",
    ['{"city": "Par', "[1]", "7", '{"city": NaN}', '{"city": 1e999}', "[" * 5000, '{"a":' * 5000, "{", DEEP],
)
def test_arguments_that_cannot_be_read_are_refused_and_kept_as_an_object(arguments):
    verdict = parse_reply(make_reply("", make_call("get_weather", arguments)), TOOLS)
    assert "could not be read" in get_refusal(verdict)
    assert isinstance(verdict, ToolCallsReply)
    assert verdict.calls[0].call.arguments == "{}"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_json_does_not_know_never_reaches_a_tool(number):
    tools = {"scale": make_tool("scale", ("by",), by="number", all="array")}
    get_refusal(parse_reply(make_reply("", make_call("scale", json.dumps({"by": number}))), tools))
    get_refusal(
        parse_reply(make_reply("", make_call("scale", json.dumps({"by": 1, "all": f"[{number}]"}))), tools)
    )


def test_no_arguments_at_all_are_an_empty_object():
    assert list_checked_calls(parse_reply(make_reply("", make_call("noargs", "")), TOOLS)) == [("noargs", {})]


def test_the_kept_arguments_are_the_repaired_ones():
    verdict = parse_reply(
        make_reply("", make_call("GET_WEATHER", '{"CITY":"\\"Paris\\"","days":"2"}')), TOOLS
    )
    assert isinstance(verdict, ToolCallsReply)
    assert verdict.calls[0].call == ToolCall(
        "chatcmpl-tool-GET_WEATHER", "get_weather", '{"city": "Paris", "days": 2}'
    )


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b\u2800\u3164", "<turn|>", "<|tool_call>call", "<|turn>", "\x00"]
)
def test_an_invisible_text_is_empty(text):
    assert isinstance(parse_reply(make_reply(text), TOOLS), EmptyReply)


def test_without_tools_calls_are_ignored_and_the_text_counts():
    reply = make_reply(
        "It is 12.\ncall:get_weather{city:Paris}", make_call("get_weather"), finish="tool_calls"
    )
    assert parse_reply(reply, {}) == AnswerReply("It is 12.")
    assert isinstance(parse_reply(make_reply("", make_call("get_weather")), {}), EmptyReply)


@pytest.mark.parametrize("finish", [None, "abort", "whatever"])
def test_a_reply_with_an_unknown_finish_reason_counts_as_broken_off(finish):
    assert parse_reply(make_reply("Hel", finish=finish), TOOLS) == AnswerReply(
        "Hel", "The answer was cut off here."
    )
    assert parse_reply(make_reply("", make_call("noargs"), finish=finish), TOOLS) == CutReply("call", "")


def test_a_repeating_end_is_kept_once():
    text = "The list: " + "one, two, three, " * 9 + "one, tw"
    verdict = parse_reply(make_reply(text, finish="repetition"), TOOLS)
    assert isinstance(verdict, AnswerReply)
    assert verdict.text.count("three") == 1
    assert verdict.text.startswith("The list: one, two")


def test_a_stop_for_repetition_without_a_visible_pattern_keeps_the_text():
    verdict = parse_reply(make_reply("no pattern here", finish="repetition"), TOOLS)
    assert isinstance(verdict, AnswerReply)
    assert verdict.text == "no pattern here"


def test_every_call_has_an_id_of_its_own():
    calls = [
        make_call("noargs", id="same"),
        make_call("noargs", id="same"),
        make_call("noargs", id="no good"),
        make_call("noargs", id="old"),
    ]
    verdict = parse_reply(make_reply("", *calls), TOOLS, step=3, used_ids={"old", "call-3-4"})
    assert isinstance(verdict, ToolCallsReply)
    assert [checked.call.id for checked in verdict.calls] == ["same", "call-3-2", "call-3-3", "call-3-4x"]


def test_calls_beyond_the_limit_of_a_step_are_left_out_with_a_refusal():
    calls = [
        make_call("get_weather", json.dumps({"city": str(number)}), f"id-{number}") for number in range(500)
    ]
    verdict = parse_reply(make_reply("", *calls), TOOLS)
    assert isinstance(verdict, ToolCallsReply)
    assert len(verdict.calls) == 17
    last = verdict.calls[-1]
    assert isinstance(last, ToolResult)
    assert last.text == "At most 16 calls run in one step; 484 were left out."


MARKS = (
    'call: get_weather { } ( ) [ ] : , = " \' \\ city 1e999 NaN é turn < | > <| |> <|"|> <eos> '
    "<unused7> <|think|> "
    "<|tool_call> <tool_call|> <|tool_response> <tool_response|> <|channel> <channel|> <|turn> <turn|>"
)
PIECES = st.sampled_from([*MARKS.split(), "\n", " ", "thought\n", "\ud83d", "\x00", "\u200b"])
WILD = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))
FINISHES = st.sampled_from(["stop", "length", "tool_calls", "repetition", "abort", None, "\x00"])


@settings(deadline=None)
@given(
    WILD,
    WILD,
    st.lists(st.builds(ToolCall, WILD, st.one_of(WILD, st.sampled_from(sorted(TOOLS))), WILD), max_size=5),
    FINISHES,
    st.booleans(),
)
def test_any_reply_is_parsed_and_no_markup_reaches_a_user(text, reasoning, calls, finish, with_tools):
    reply: Reply = make_reply(text, *calls, finish=finish, reasoning=reasoning)
    verdict = parse_reply(reply, TOOLS if with_tools else {})
    match verdict:
        case AnswerReply(answer):
            assert not CONTROL_TOKEN.search(answer)
            assert not is_blank(answer)
            answer.encode()
        case ToolCallsReply(narration, checked_calls):
            assert finish in {"stop", "tool_calls"}
            assert not CONTROL_TOKEN.search(narration)
            assert len({checked.call.id for checked in checked_calls}) == len(checked_calls)
            for checked in checked_calls:
                assert isinstance(json.loads(checked.call.arguments), dict)
                f"{checked.call.id} {checked.call.name} {checked.call.arguments}".encode()
                assert not CONTROL_TOKEN.search(checked.call.name)
                assert isinstance(checked, CheckedCall) or not CONTROL_TOKEN.search(checked.text)
        case CutReply() | EmptyReply():
            pass
    visible_text = extract_visible_text(text)
    assert not CONTROL_TOKEN.search(visible_text)
