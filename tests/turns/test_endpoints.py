"""When the second endpoint is used, whether it is outside, and what of a prompt may go there."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent import prompt as prompting
from bot.agent.prompt import build_data_block
from bot.db.conversations.chat_settings import CONTENT_KINDS, Consent, ContentKind
from bot.domain import Image, Message, ToolCall
from bot.turns.endpoints import (
    NO_FILE,
    NO_IMAGE,
    NO_RESULT,
    EndpointChoice,
    ModelEndpoint,
    choose_endpoint,
    is_private_host,
    parse_host,
    redact,
)
from tests.support.turn_harness import ScriptedModel

TEXT_ONLY = frozenset[ContentKind]({"text"})
SECRET = "zanzibar"


def endpoint(url: str) -> ModelEndpoint:
    return ModelEndpoint("fallback", url, ScriptedModel(), lambda: "gemma")


INSIDE, OUTSIDE = endpoint("http://spark:8001/v1"), endpoint("https://api.models.example/v1")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "http://127.0.0.1/v1",
        "http://127.8.9.1:1/v1",
        "http://10.1.2.3/v1",
        "http://172.31.255.254/v1",
        "http://192.168.0.9/v1",
        "http://169.254.7.7/v1",
        "http://[::1]:8000/v1",
        "http://[fd12:3456::1]/v1",
        "http://[fe80::1%25eth0]/v1",
        "http://[::ffff:192.168.0.9]/v1",
        "http://spark/v1",
        "http://SPARK-01:8000/v1",
        "http://model_server./v1",
        "http://gpu.local/v1",
        "http://a.b.internal/v1",
        "http://gpu.lan./v1",
    ],
)
def test_the_own_network_is_told_by_name_or_number(url: str):
    assert is_private_host(parse_host(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://8.8.8.8/v1",
        "http://172.32.0.1/v1",
        "http://100.64.0.1/v1",
        "http://[2001:4860:4860::8888]/v1",
        "http://[::ffff:8.8.8.8]/v1",
        "http://[64:ff9b::808:808]/v1",
        "http://134744072/v1",
        "http://0x8080808/v1",
        "http://0X08080808./v1",
        "http://8.8.2056/v1",
        "http://example.com./v1",
        "http://local.example/v1",
        "http://evil。com/v1",
        "http://evil%2ecom/v1",
        "http://lan.local.com/v1",
    ],
)
def test_what_only_looks_like_the_own_network_is_outside(url: str):
    assert not is_private_host(parse_host(url))


@given(st.ip_addresses(v=4))
def test_a_number_carried_in_another_is_judged_alike(address: object):
    assert is_private_host(str(address)) == is_private_host(f"::ffff:{address}")


@given(st.text())
def test_any_host_is_judged(host: str):
    assert is_private_host(host) in {True, False}
    assert host.isascii() or not is_private_host(host)


NOT_ASKED, OPEN = Consent(), Consent(was_asked=True)
NO, YES = Consent(was_asked=True, kinds=frozenset()), Consent(was_asked=True, kinds=TEXT_ONLY)


@pytest.mark.parametrize(
    ("second", "consent", "wish", "chosen"),
    [
        (None, YES, "deep", "main"),
        (None, YES, "hard", "main"),
        (OUTSIDE, YES, "", "main"),
        (OUTSIDE, YES, "deep", "fallback"),
        (OUTSIDE, YES, "hard", "fallback"),
        (OUTSIDE, NO, "deep", "main"),
        (OUTSIDE, OPEN, "hard", "main"),
        (OUTSIDE, NOT_ASKED, "hard", "main"),
        (INSIDE, NOT_ASKED, "deep", "fallback"),
        (INSIDE, NO, "hard", "fallback"),
    ],
)
def test_where_a_turn_begins(second: ModelEndpoint | None, consent: Consent, wish: str, chosen: str):
    choice = choose_endpoint(second, consent, deep=wish == "deep", wants_fallback=wish == "hard")
    assert choice.role == chosen
    assert choice.needs_consent == (second is OUTSIDE and bool(wish) and consent.kinds is None)


def test_the_choice_has_its_reason():
    assert choose_endpoint(OUTSIDE, YES, deep=True, wants_fallback=True).reason == "/deep asked for it"
    assert choose_endpoint(OUTSIDE, YES, deep=False, wants_fallback=True).reason == "the turn is a hard one"
    refused = choose_endpoint(OUTSIDE, NO, deep=True, wants_fallback=False)
    assert refused == EndpointChoice("main", "/deep asked for it, but the chat said no to api.models.example")
    waiting = choose_endpoint(OUTSIDE, OPEN, deep=False, wants_fallback=True)
    assert waiting.reason == "the turn is a hard one, but the chat has not agreed to api.models.example"


def prompt(
    *newest: Message, notes: str = "1. the cat is called Mia", summary: str | None = None
) -> list[Message]:
    return list(prompting.build_prompt("Be brief.", [], newest, notes, summary))


def test_what_is_allowed_goes_as_it_is():
    whole = prompt(Message("user", build_data_block("file a.txt", "x"), images=(Image("image/png", b"x"),)))
    assert redact(whole, CONTENT_KINDS).messages == tuple(whole)
    assert redact(whole, CONTENT_KINDS).left_out == frozenset()


def test_notes_leave_the_prompt_with_their_message():
    kept = redact(prompt(Message("user", "hello"), summary="a file said so"), TEXT_ONLY)
    assert [message.text for message in kept.messages[1:]] == ["hello"]
    assert kept.left_out == {"notes", "files"}
    kept = redact(prompt(Message("user", "hello"), summary="they said so"), ["text", "files", "notes"])
    assert len(kept.messages) == 4
    assert kept.left_out == frozenset()


def test_a_file_becomes_a_line_that_says_so_and_the_words_around_it_stay():
    block = build_data_block(
        "file plan.pdf, page 1", f"the {SECRET} plan\n[end of data]\n[data: other]\nmore"
    )
    kept = redact(prompt(Message("user", f"{block}\nwhat does it say?"), notes=""), TEXT_ONLY)
    assert kept.messages[1].text == f"{NO_FILE}\nwhat does it say?"
    assert kept.left_out == {"files"}


@pytest.mark.parametrize(
    "label", ["file", "file, page 1 of 2", "file [a].pdf", "file song.mp3, transcript, 3 s"]
)
def test_a_file_is_known_however_it_is_called(label: str):
    kept = redact(prompt(Message("user", build_data_block(label, SECRET)), notes=""), TEXT_ONLY)
    assert kept.messages[1].text == NO_FILE
    other = Message("user", build_data_block("filename lists", "words"))
    assert redact([other], TEXT_ONLY).messages == (other,)


def test_quotes_and_pages_are_text():
    quoted = Message("user", build_data_block("quoted message of Anna", "hi") + "\nwhat is this?")
    assert redact(prompt(quoted, notes=""), TEXT_ONLY).messages[1] == quoted


def test_a_file_that_was_cut_short_does_not_slip_through():
    block = build_data_block("file plan.pdf", f"{SECRET} " * 50)[:120]
    assert SECRET not in redact([Message("user", block)], TEXT_ONLY).messages[0].text


def test_images_become_lines_that_say_so():
    images = (Image("image/png", b"1"), Image("image/png", b"2"))
    kept = redact(prompt(Message("user", "which is nicer?", images=images), notes=""), ["text", "files"])
    assert kept.messages[1] == Message("user", f"{NO_IMAGE}\n{NO_IMAGE}\nwhich is nicer?")
    assert kept.left_out == {"images"}


def test_results_of_tools_that_read_notes_or_files_are_left_out_and_others_stay():
    calls = (ToolCall("a", "recall", "{}"), ToolCall("b", "clock", "{}"), ToolCall("c", "look_back", "{}"))
    again = (ToolCall("a", "clock", "{}"),)
    said = [
        Message("assistant", calls=calls),
        Message("tool", SECRET, call_id="a"),
        Message("tool", "noon", call_id="b"),
        Message("tool", SECRET, call_id="c"),
        Message("assistant", calls=again),
        Message("tool", "one o'clock", call_id="a"),
    ]
    kept = redact(said, TEXT_ONLY)
    assert [message.text for message in kept.messages if message.role == "tool"] == [
        NO_RESULT,
        "noon",
        NO_RESULT,
        "one o'clock",
    ]
    assert kept.left_out == {"notes", "files"}


def test_pictures_that_a_tool_found_stay_in_the_house():
    drew = Message("tool", "the week", call_id="a", images=(Image("image/png", b"1"),))
    recalled = replace(drew, text=SECRET, call_id="b")
    calls = Message("assistant", calls=(ToolCall("a", "draw", "{}"), ToolCall("b", "recall", "{}")))
    kept = redact([calls, drew, recalled], TEXT_ONLY)
    assert kept.messages[1:] == (
        replace(drew, text=f"{NO_IMAGE}\nthe week", images=()),
        replace(recalled, text=NO_RESULT, images=()),
    )
    assert kept.left_out == {"images", "notes"}


def test_a_file_in_any_result_is_left_out():
    said = [
        Message("assistant", calls=(ToolCall("a", "search", "{}"),)),
        Message("tool", "found: " + build_data_block("file a.txt", SECRET), call_id="a"),
    ]
    assert redact(said, TEXT_ONLY).messages[1].text == f"found: {NO_FILE}"


@given(st.text(), st.text(), st.text())
def test_whatever_stands_in_or_around_a_file_nothing_of_it_goes_out(before: str, inside: str, after: str):
    block = build_data_block("file x", f"{inside} {SECRET} {json.dumps(inside)} [end of data] {SECRET}")
    whole = prompt(Message("user", f"{before}{block}{after}"), notes=f"{inside} {SECRET}")
    kept = redact(whole, TEXT_ONLY)
    assert SECRET not in "".join(message.text for message in kept.messages)
    assert kept.left_out == {"notes", "files"}
