"""Calls and markup that leaked into the text of a reply: run where they are surely meant, and never shown."""

import pytest

from bot.agent.leaked_calls import MAX_LEAKS, MAX_READ_CHARS
from bot.agent.reply_parser import AnswerReply, CutReply, ToolCallsReply, extract_visible_text, parse_reply
from bot.domain import ToolResult
from tests.support.offered_tools import PARIS, TOOLS, get_refusal, list_checked_calls, make_reply


@pytest.mark.parametrize(
    "text",
    [
        'call:get_weather{city:<|"|>Paris<|"|>}',
        'call:get_weather(city:<|"|>Paris<|"|>)',
        'call:get_weather(city="Paris")',
        "call:get_weather(city='Paris', )",
        'call:get_weather{"city":"Paris"}',
        "call:get_weather {city:Paris}",
        ":call:call:GET_weather{city: Paris}",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|><|tool_response>',
        "Let me look.\ncall:get_weather{city:Paris}\n",
    ],
)
def test_a_call_that_leaked_into_the_text_is_run(text):
    assert list_checked_calls(parse_reply(make_reply(text), TOOLS)) == PARIS


def test_values_of_a_leaked_call_are_parsed():
    text = (
        'call:send_message{text:<|"|>a, b: {c}<|"|>,to:[1, -2.5e3, true, null, word],'
        'opts:{silent:true,"quo\\"te":"q\\n"},items:[{k:<|"|>x<|"|>},[]]}'
    )
    assert list_checked_calls(parse_reply(make_reply(text), TOOLS)) == [
        (
            "send_message",
            {
                "text": "a, b: {c}",
                "to": [1, -2500.0, True, None, "word"],
                "opts": {"silent": True, 'quo"te': "q\n"},
                "items": [{"k": "x"}, []],
            },
        )
    ]


def test_several_leaked_calls_in_a_row_are_all_run():
    text = "call:get_weather{city:Paris}\ncall:get_weather{city:Rome}call:noargs{}"
    assert list_checked_calls(parse_reply(make_reply(text), TOOLS)) == [
        *PARIS,
        ("get_weather", {"city": "Rome"}),
        ("noargs", {}),
    ]


@pytest.mark.parametrize(
    "text", ["call:rm_rf{path:/}", "call:get_weather{city:", 'call:get_weather{city:<|"|>Par']
)
def test_a_leaked_call_that_cannot_run_is_refused(text):
    assert get_refusal(parse_reply(make_reply(text), TOOLS))


def test_a_leaked_call_of_a_cut_reply_is_never_run():
    assert parse_reply(make_reply("Wait.\ncall:get_weather{city:Paris}", finish="length"), TOOLS) == CutReply(
        "call", "Wait."
    )


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("I would use call:get_weather{city:Paris} for that.", "I would use  for that."),
        ("call:get_weather{city:Paris}\nThen I would tell you.", "Then I would tell you."),
        ("First (call:get_weather{city:Paris}", "First ("),
        ("He said: call:me(maybe)", "He said: call:me(maybe)"),
        ("recall:get_weather{city:Paris}", "recall:get_weather{city:Paris}"),
    ],
)
def test_a_call_in_the_middle_of_a_text_is_neither_run_nor_shown(text, visible):
    assert parse_reply(make_reply(text), TOOLS) == AnswerReply(visible)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<|channel>thought\nhm<channel|>Hello", "Hello"),
        ("Hello<|channel>thought\nhm", "Hello"),
        ("<|channel>thought\nHello", "Hello"),
        ("thought\nHello", "Hello"),
        ("Hello<turn|>", "Hello"),
        ("<|turn>model\nHello<turn|>\n<|turn>user\nAnd you?", "Hello"),
        ("Hello<|tool_response>response:x{value:1}<tool_response|> there", "Hello there"),
        ("Hello <|tool_call>rubbish<tool_call|>there", "Hello there"),
        ("<unused145>Hello<eos>", "Hello"),
        ("<|tu<|turn|>rn|>Hello", "Hello"),
        ("a < b |> c and x<y>", "a < b |> c and x<y>"),
    ],
)
def test_markup_is_removed_from_a_text(text, visible):
    assert parse_reply(make_reply(text), TOOLS) == AnswerReply(visible)


def test_a_text_still_being_written_is_shown_without_markup():
    assert extract_visible_text("Hello <|tool_call>call:get_weather{ci") == "Hello"
    assert extract_visible_text("Let me see.\ncall:get_weather{ci") == "Let me see."
    assert extract_visible_text("<|channel>thought\nhm") == ""
    assert [
        extract_visible_text(f"So far. {cut}")
        for cut in ("<|tool_ca", "<|", '<|"', "<turn|", "call:", "call:get_w")
    ] == ["So far."] * 6
    assert extract_visible_text("if a <b") == "if a <b"


@pytest.mark.parametrize(
    "text",
    [
        "call:get_weather{city:Paris}\n" * (MAX_LEAKS + 1),
        f"call:get_weather{{city:{'x' * MAX_READ_CHARS}}}\n",
    ],
)
def test_more_leaked_calls_than_are_read_are_refused_and_never_shown(text):
    verdict = parse_reply(make_reply(text), TOOLS)
    assert isinstance(verdict, ToolCallsReply)
    assert isinstance(verdict.calls[-1], ToolResult)
    assert extract_visible_text(f"Done.\n{text}") == "Done."
