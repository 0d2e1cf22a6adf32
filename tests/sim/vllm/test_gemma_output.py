import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bot.sim.gemma.parser import StreamParser, parse_reply
from bot.sim.gemma.template import TemplateInput, render_prompt
from bot.sim.gemma.tokens import (
    CACHE_BLOCK_TOKENS,
    CONTROL_IDS,
    count_tokens,
    expand_images,
    split_blocks,
    split_control_tokens,
    tokenize,
)

D = '<|"|>'
THOUGHT_LABEL = "thought\n"
SCHEMAS = {"f": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}
PARIS = f"<|tool_call>call:f{{city:{D}Paris{D},days:3}}<tool_call|>"

wild = st.lists(
    st.one_of(
        st.sampled_from([*CONTROL_IDS, "call:", "{", "}", ":", ",", "thought\n", "f"]), st.text(max_size=8)
    )
).map("".join)


def parse_streamed(*canvases: str, inside_thought: bool = False) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, content and calls of a stream."""
    stream = StreamParser(SCHEMAS, inside_thought=inside_thought)
    deltas = [*map(stream.feed, canvases), stream.finish()]
    calls: dict[int, list[str]] = {}
    for piece in (piece for delta in deltas for piece in delta.calls):
        name, arguments = calls.setdefault(piece.index, ["", ""])
        calls[piece.index] = [name + (piece.name or ""), arguments + (piece.arguments or "")]
    message = ("".join(delta.reasoning for delta in deltas), "".join(delta.content for delta in deltas))
    return *message, [(name, arguments) for name, arguments in calls.values()]


def parse_at_once(raw: str) -> tuple[str, str, list[tuple[str, str]]]:
    parsed = parse_reply(raw, SCHEMAS)
    return parsed.reasoning, parsed.content, list(parsed.calls)


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (PARIS, ("", "", [("f", '{"city": "Paris", "days": 3}')])),
        (f"<|channel>thought\nR<channel|>A{PARIS}", ("R", "A", [("f", '{"city": "Paris", "days": 3}')])),
        (f"<|channel>thought\nR{PARIS}", ("R", "", [("f", '{"city": "Paris", "days": 3}')])),
        (f"<|tool_call>call:f{{city:{D}Par", ("", "", [("f", '{"city": "Par"}')])),
        ("<|tool_call>call:get_we", ("", "", [("get_we", "{}")])),
        ("<|tool_call>call:", ("", "", [])),
        ("<|tool_call>ca", ("", "", [])),
        ("<|channel>thought\nlong and", ("long and", "", [])),
        (f"call:f{{city:{D}Paris{D}}}", ("", f"call:f{{city:{D}Paris{D}}}", [])),
        (f"<|tool_call>call:f(city:{D}Paris{D})<tool_call|>", ("", "", [("f", '{"city": "Paris"}')])),
        ('<|tool_call>call:f(city="Paris")<tool_call|>', ("", "", [("f", "{}")])),
        (
            '<|tool_call>call:f{city:"Paris",days:"3"}<tool_call|>',
            ("", "", [("f", r'{"city": "\"Paris\"", "days": "3"}')]),
        ),
        ('<|tool_call>call:f{"city":"Paris"}<tool_call|>', ("", "", [("f", r'{"\"city\"": "\"Paris\""}')])),
        ("<|tool_call>:f{days:1}<tool_call|>", ("", "", [("f", '{"days": 1}')])),
        ("<|tool_call>:call:f{days:1}<tool_call|>", ("", "", [("call:f", '{"days": "1"}')])),
        ("<|tool_call>call:{days:1}<tool_call|>", ("", "", [])),
        ("<|tool_call>blah blah<tool_call|>after", ("", "after", [])),
        (
            f"<|tool_call>call:f{{city:{D}Paris,days:3}}<tool_call|>",
            ("", "", [("f", '{"city": "Paris,days:3"}')]),
        ),
        ("thought\nHello!", ("Hello!", "", [])),
        ("<|channel>thought\na<channel|><|channel>thought\nb<channel|>", ("athought\nb", "", [])),
        ("", ("", "", [])),
    ],
)
def test_raw_text_becomes_what_the_real_parser_makes_of_it(raw: str, result: Any) -> None:
    assert parse_streamed(raw) == parse_at_once(raw) == result


@pytest.mark.parametrize(
    ("raw", "in_stream", "not_streamed"),
    [
        (f"Look.\n{PARIS}", "Look.\n", "Look."),
        (f"{PARIS}Done.", "Done.", ""),
        ("Hello <tool_call|> there <channel|> x", "Hello  there  x", " x"),
    ],
)
def test_content_differs_between_a_stream_and_a_whole_reply(
    raw: str, in_stream: str, not_streamed: str
) -> None:
    assert parse_streamed(raw)[1] == in_stream
    assert parse_at_once(raw)[1] == not_streamed


def test_markup_spelled_with_ordinary_tokens_is_a_call_only_when_not_streamed() -> None:
    raw = "\x00<|tool_call>call:f{days:1}\x00<tool_call|>"
    assert parse_streamed(raw) == ("", "<|tool_call>call:f{days:1}<tool_call|>", [])
    assert parse_at_once(raw)[2] == [("f", '{"days": 1}')]


def test_a_key_given_twice_never_becomes_json_in_a_stream() -> None:
    raw = f"<|tool_call>call:f{{city:{D}Paris{D},city:{D}Rome{D}}}<tool_call|>"
    assert parse_streamed(raw)[2] == [("f", '{"city": "Paris')]
    assert parse_at_once(raw)[2] == [("f", '{"city": "Rome"}')]


def test_an_open_channel_makes_the_answer_reasoning_only_in_a_stream() -> None:
    assert parse_streamed("It is sunny.", inside_thought=True) == ("It is sunny.", "", [])
    assert parse_streamed("got it\n<channel|>Sunny.", inside_thought=True) == ("got it", "Sunny.", [])


def test_without_tools_calls_vanish() -> None:
    assert parse_reply(f"Look. {PARIS}", None).content == "Look. "
    stream = StreamParser(None)
    assert stream.feed(PARIS).is_empty
    assert not stream.finish().calls


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("integer", "null", None),
        ("string", "null", "null"),
        ("integer", "07", 7),
        ("number", "-2.5e3", -2500),
        ("number", "1.5", 1.5),
        ("number", "nan", "nan"),
        ("boolean", "true", True),
        ("boolean", "yes", "yes"),
        ("array", f"[1,{D}a{D},[2],{{x:1}}]", ["1", "a", ["2"], {"x": "1"}]),
        ("array", f"{D}[1, 2]{D}", [1, 2]),
        ("object", f"{{a:{{b:{D}c{D}}}}}", {"a": {"b": "c"}}),
        ("object", f'{D}{{"a": 1}}{D}', {"a": 1}),
        (["integer", "null"], "5", 5),
    ],
)
def test_values_get_the_types_of_the_schema(kind: Any, raw: str, value: Any) -> None:
    schemas = {"f": {"properties": {"x": {"type": kind}}}}
    calls = parse_reply(f"<|tool_call>call:f{{x:{raw},y:1}}<tool_call|>", schemas).calls
    assert json.loads(calls[0][1]) == {"x": value, "y": "1"}


def test_branches_of_a_schema_count_as_its_types() -> None:
    schemas = {"f": {"properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}
    assert parse_reply("<|tool_call>call:f{x:5}<tool_call|>", schemas).calls[0][1] == '{"x": 5}'


def cuts_thought_label(canvases: list[str]) -> bool:
    """Whether the first text of a reply ends within the label of a thought."""
    for canvas in canvases:
        text = "".join(piece for piece, is_control in split_control_tokens(canvas) if not is_control)
        if text:
            return text != THOUGHT_LABEL and THOUGHT_LABEL.startswith(text)
    return False


@given(wild, st.lists(st.integers(4, 12), min_size=1, max_size=4))
@example("<pad><pad>thought\n", [4])
def test_a_stream_says_the_same_however_it_is_cut(raw: str, widths: list[int]) -> None:
    tokens = tokenize(raw)
    canvases: list[str] = []
    while tokens:
        width = widths[len(canvases) % len(widths)]
        canvases.append("".join(tokens[:width]))
        tokens = tokens[width:]
    assume(not cuts_thought_label(canvases))  # a canvas has 256 tokens, and the label stands in the first
    assert parse_streamed(*canvases) == parse_streamed(raw)


@given(wild)
def test_nothing_stops_the_parser(raw: str) -> None:
    parse_streamed(raw)
    parse_at_once(raw)


@given(wild)
def test_tokens_and_blocks_are_the_text_again_and_count_alike(text: str) -> None:
    assert "".join(tokenize(text)) == text
    blocks, count = split_blocks(text)
    assert "".join(blocks) == expand_images(text)
    assert count == count_tokens(text)
    assert all(len(tokenize(block)) == CACHE_BLOCK_TOKENS for block in blocks[:-1])


def test_english_prose_is_between_four_and_five_characters_a_token() -> None:
    prose = (
        "The keeper walked slowly along the shore, and watched the waves roll in from the grey horizon. " * 20
    )
    assert 4 < len(prose) / count_tokens(prose) < 5


def test_an_image_is_280_tokens() -> None:
    assert count_tokens("<|image|>") == 280
    assert [piece for piece, control in split_control_tokens("a<|image|>b") if control] == ["<|image|>"]


def render_messages(*messages: Any, **fields: Any) -> str:
    return render_prompt(TemplateInput(messages, **fields))


def test_thinking_changes_the_head_of_the_prompt() -> None:
    on, off = (
        render_messages({"role": "user", "content": "hi"}, thinking=thinking) for thinking in (True, False)
    )
    assert on == "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nhi<turn|>\n<|turn>model\n"
    assert off == "<bos><|turn>user\nhi<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"


def test_a_reply_in_history_continues_the_prompt_it_was_made_for() -> None:
    user = {"role": "user", "content": "hi"}
    answer = {"role": "assistant", "content": "hello"}
    assert render_messages(user, answer, {"role": "user", "content": "x"}).startswith(
        f"{render_messages(user)}hello<turn|>\n"
    )


def test_text_and_calls_in_two_messages_are_rendered_in_order() -> None:
    call = {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": '{"b": null, "a": [1, true]}'},
    }
    text = render_messages(
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "txt"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
        {"role": "tool", "tool_call_id": "?", "content": "s"},
    )
    assert "txt\n<|tool_call>call:f{a:[1,true],b:null}<tool_call|><|tool_response>response:f{" in text
    assert text.endswith(f"<|tool_response>response:unknown{{value:{D}s{D}}}<tool_response|>")


def test_a_call_without_its_result_leaves_the_response_open() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
    text = render_messages({"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [call]})
    assert text.endswith("<|tool_call>call:f{}<tool_call|><|tool_response>")


def test_a_result_without_its_call_is_dropped() -> None:
    text = render_messages(
        {"role": "user", "content": "u"}, {"role": "tool", "tool_call_id": "a", "content": "lost"}
    )
    assert "lost" not in text


def test_reasoning_survives_only_behind_the_last_user_message() -> None:
    old = {"role": "assistant", "content": "a", "reasoning": "R"}
    history = ({"role": "user", "content": "u"}, old, {"role": "user", "content": "v"})
    assert "R" not in render_messages(*history)
    assert "<|channel>thought\nR\n<channel|>a" in render_messages(*history, preserve_thinking=True)
    assert "<|channel>thought\nR\n<channel|>a" in render_messages(*history[:2])


def test_thoughts_inside_content_are_removed() -> None:
    message = {"role": "assistant", "content": "<|channel>thought\nsecret<channel|> open"}
    assert "secret" not in render_messages({"role": "user", "content": "u"}, message)


def test_a_last_answer_can_be_continued() -> None:
    message = {"role": "assistant", "content": "and then"}
    text = render_messages({"role": "user", "content": "u"}, message, generate=False, continue_last=True)
    assert text.endswith("and then")


def test_later_system_messages_and_unknown_roles_stand_in_place() -> None:
    text = render_messages(
        {"role": "developer", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": " a "}, {"type": "image_url", "image_url": {}}],
        },
        {"role": "wizard", "content": "w"},
        {"role": "system", "content": "s"},
    )
    assert text.startswith("<bos><|turn>system\na b <turn|>\n<|turn>user\na<|image|><turn|>\n")
    assert "<|turn>wizard\nw<turn|>\n<|turn>system\ns<turn|>\n" in text


def test_an_image_in_a_tool_result_stands_behind_its_response() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    content = [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {}}]
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    text = render_messages(
        {"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [call]}, result
    )
    assert text.endswith(f"{{value:{D}seen{D}}}<tool_response|><|image|>")


def test_a_tool_is_rendered_with_what_the_template_keeps() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "Z": {"type": "integer", "minimum": 1, "default": 3, "nullable": True},
            "a": {"anyOf": [{"type": "string"}]},
            "o": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "l": {"type": "array", "items": {"type": "string", "description": "d", "enum": None}},
        },
    }
    tools = [
        {"function": {"name": "t", "parameters": parameters}},
        {"function": {"name": "u", "description": "U"}},
    ]
    text = render_messages({"role": "user", "content": "u"}, tools=tools)
    assert f"declaration:t{{description:{D}None{D},parameters:{{properties:{{a:{{type:{D}{D}}}," in text
    assert f"l:{{items:{{description:{D}d{D},type:{D}STRING{D}}},type:{D}ARRAY{D}}}" in text
    assert f"o:{{properties:{{x:{{type:{D}NUMBER{D}}}}},required:[{D}x{D}],type:{D}OBJECT{D}}}" in text
    assert f"Z:{{nullable:true,type:{D}INTEGER{D}}}" in text
    assert f"<|tool>declaration:u{{description:{D}U{D}}}<tool|>" in text
