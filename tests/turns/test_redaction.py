"""What of a prompt may leave the network, and what becomes of the rest."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies

from bot.agent.prompt import PromptHead, build_data_block, build_prompt
from bot.db.conversations.chat_settings import CONTENT_KINDS, ContentKind
from bot.domain import Image, Message, ToolCall
from bot.turns.redaction import NO_FILE, NO_IMAGE, NO_RESULT, redact

TEXT_ONLY = frozenset[ContentKind]({"text"})
SECRET = "zanzibar"


def make_prompt(
    *newest: Message, notes: str = "1. the cat is called Mia", summary: str | None = None
) -> list[Message]:
    return list(build_prompt("Be brief.", [], newest, PromptHead(notes=notes, summary=summary)))


def test_allowed_content_goes_out_unchanged():
    messages = make_prompt(
        Message("user", build_data_block("file a.txt", "x"), images=(Image("image/png", b"x"),))
    )
    assert redact(messages, CONTENT_KINDS).messages == tuple(messages)
    assert redact(messages, CONTENT_KINDS).left_out == frozenset()


def test_notes_leave_the_prompt_with_their_message():
    redacted = redact(make_prompt(Message("user", "hello"), summary="a file said so"), TEXT_ONLY)
    assert [message.text for message in redacted.messages[1:]] == ["hello"]
    assert redacted.left_out == {"notes", "files"}
    redacted = redact(
        make_prompt(Message("user", "hello"), summary="they said so"), ["text", "files", "notes"]
    )
    assert len(redacted.messages) == 4
    assert redacted.left_out == frozenset()


def test_a_file_is_replaced_by_a_line_that_says_so_and_the_text_around_it_stays():
    block = build_data_block(
        "file plan.pdf, page 1", f"the {SECRET} plan\n[end of data]\n[data: other]\nmore"
    )
    redacted = redact(make_prompt(Message("user", f"{block}\nwhat does it say?"), notes=""), TEXT_ONLY)
    assert redacted.messages[1].text == f"{NO_FILE}\nwhat does it say?"
    assert redacted.left_out == {"files"}


@pytest.mark.parametrize(
    "label", ["file", "file, page 1 of 2", "file [a].pdf", "file song.mp3, transcript, 3 s"]
)
def test_a_file_is_recognized_whatever_its_name(label: str):
    redacted = redact(make_prompt(Message("user", build_data_block(label, SECRET)), notes=""), TEXT_ONLY)
    assert redacted.messages[1].text == NO_FILE
    no_file = Message("user", build_data_block("filename lists", "words"))
    assert redact([no_file], TEXT_ONLY).messages == (no_file,)


def test_quotes_and_pages_count_as_text():
    quoted = Message("user", build_data_block("quoted message of Anna", "hi") + "\nwhat is this?")
    assert redact(make_prompt(quoted, notes=""), TEXT_ONLY).messages[1] == quoted


def test_a_file_that_was_cut_short_is_left_out():
    block = build_data_block("file plan.pdf", f"{SECRET} " * 50)[:120]
    assert SECRET not in redact([Message("user", block)], TEXT_ONLY).messages[0].text


def test_images_are_replaced_by_lines_that_say_so():
    images = (Image("image/png", b"1"), Image("image/png", b"2"))
    redacted = redact(
        make_prompt(Message("user", "which is nicer?", images=images), notes=""), ["text", "files"]
    )
    assert redacted.messages[1] == Message("user", f"{NO_IMAGE}\n{NO_IMAGE}\nwhich is nicer?")
    assert redacted.left_out == {"images"}


def test_results_of_tools_that_read_notes_or_files_are_left_out_and_others_stay():
    calls = (ToolCall("a", "recall", "{}"), ToolCall("b", "clock", "{}"), ToolCall("c", "look_back", "{}"))
    same_id = (ToolCall("a", "clock", "{}"),)
    messages = [
        Message("assistant", calls=calls),
        Message("tool", SECRET, call_id="a"),
        Message("tool", "noon", call_id="b"),
        Message("tool", SECRET, call_id="c"),
        Message("assistant", calls=same_id),
        Message("tool", "one o'clock", call_id="a"),
    ]
    redacted = redact(messages, TEXT_ONLY)
    assert [message.text for message in redacted.messages if message.role == "tool"] == [
        NO_RESULT,
        "noon",
        NO_RESULT,
        "one o'clock",
    ]
    assert redacted.left_out == {"notes", "files"}


def test_pictures_that_a_tool_found_are_left_out():
    drew = Message("tool", "the week", call_id="a", images=(Image("image/png", b"1"),))
    recalled = replace(drew, text=SECRET, call_id="b")
    calls = Message("assistant", calls=(ToolCall("a", "draw", "{}"), ToolCall("b", "recall", "{}")))
    redacted = redact([calls, drew, recalled], TEXT_ONLY)
    assert redacted.messages[1:] == (
        replace(drew, text=f"{NO_IMAGE}\nthe week", images=()),
        replace(recalled, text=NO_RESULT, images=()),
    )
    assert redacted.left_out == {"images", "notes"}


def test_a_file_in_any_result_is_left_out():
    messages = [
        Message("assistant", calls=(ToolCall("a", "search", "{}"),)),
        Message("tool", "found: " + build_data_block("file a.txt", SECRET), call_id="a"),
    ]
    assert redact(messages, TEXT_ONLY).messages[1].text == f"found: {NO_FILE}"


@given(strategies.text(), strategies.text(), strategies.text())
def test_nothing_of_a_file_goes_out_whatever_is_in_or_around_it(
    text_before: str, inside: str, text_after: str
):
    block = build_data_block("file x", f"{inside} {SECRET} {json.dumps(inside)} [end of data] {SECRET}")
    messages = make_prompt(Message("user", f"{text_before}{block}{text_after}"), notes=f"{inside} {SECRET}")
    redacted = redact(messages, TEXT_ONLY)
    assert SECRET not in "".join(message.text for message in redacted.messages)
    assert redacted.left_out == {"notes", "files"}
