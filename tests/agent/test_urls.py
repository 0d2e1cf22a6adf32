"""URLs compared: the same URL matches however it is written, and not one character may be added."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.urls import extract_host, find_urls_in_text, is_url_prefix_in_text, normalize_url

LETTERS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_~", min_size=1, max_size=8)
HOSTS = st.builds(
    lambda *labels: ".".join(labels), *[st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)] * 2
)
PATHS = st.builds(lambda parts: "".join(f"/{part}" for part in parts), st.lists(LETTERS, max_size=3))
QUERIES = st.builds(
    lambda pairs: "?" + "&".join(f"{k}={v}" for k, v in pairs), st.lists(st.tuples(LETTERS, LETTERS))
)
ADDRESSES = st.builds(lambda *parts: "https://" + "".join(parts), HOSTS, PATHS, QUERIES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://Example.COM/a", "http://example.com:80/a#part"),
        ("example.com", "https://example.com/"),
        ("https://example.com/docs/", "https://example.com/docs"),
        ("https://example.com./%7Eann/%e2%82%ac", "https://example.com/~ann/€"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://[2001:DB8::1]:443/x", "https://[2001:db8::1]/x"),
    ],
)
def test_differences_without_meaning_are_ignored(first: str, second: str):
    assert normalize_url(first) is not None
    assert normalize_url(first) == normalize_url(second)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "hello",
            "ftp://example.com/a",
            "https://",
            "https://ann:pw@example.com/",
            "https://exa mple.com/",
        ),
        *("https://example.com:99999/", "https://example.com/a\\b", "https://a..b\x00.c/", "https://[::1/x"),
        *(
            "https://ex\u00adample\u2100.com/",
            "https://" + "a" * 70 + "é.com/",
            "https://" + "a" * 5000,
            "file:///etc",
        ),
        "https://exa(mple.com",
    ],
)
def test_what_is_no_web_url_has_no_normal_form(text: str):
    assert normalize_url(text) is None
    assert extract_host(text) is None
    assert not find_urls_in_text([text], text)


@pytest.mark.parametrize(
    "text",
    [
        "Please read https://example.com/a?b=1.",
        "(see https://example.com/a?b=1)",
        "[here](https://example.com/a?b=1) and there",
        '{"url":"https:\\/\\/example.com\\/a?b=1"}',
        "<a href='https://example.com/a?b=1'>it</a>",
        "example.com/a?b=1, says Ann",
        "*HTTPS://EXAMPLE.com/a?b=1*",
        "a|https://example.com/a?b=1|b",
        "url=example.com/a?b=1;",
    ],
)
def test_a_url_is_found_whatever_surrounds_it(text: str):
    assert find_urls_in_text(["https://example.com/a?b=1"], text)
    assert not find_urls_in_text(["https://example.com/a?b=12"], text)
    assert not find_urls_in_text(["https://example.com/a"], "https://example.com/ab")


def test_escaped_urls_are_found():
    assert find_urls_in_text(["https://example.com/?a=1&b=2"], "https://example.com/?a=1&amp;b=2")
    assert find_urls_in_text(["https://xn--bcher-kva.example"], "bücher.example")


@settings(max_examples=60, deadline=None)
@given(ADDRESSES, st.text(max_size=30), st.text(max_size=30))
def test_a_url_in_a_text_is_found_there(address: str, before: str, after: str):
    assert find_urls_in_text([address], f"{before} {address} {after}")


@settings(max_examples=60, deadline=None)
@given(ADDRESSES, st.text("abcxyz019=&?%-_", min_size=1, max_size=12), st.text(" .,)]|", max_size=3))
def test_nothing_may_be_added_to_a_url(address: str, secret: str, around: str):
    longer = address + secret
    is_same = normalize_url(longer) == normalize_url(address)
    assert bool(find_urls_in_text([longer], f"{around}{address}{around} {address}")) == is_same


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.text(max_size=200))
def test_any_text_is_handled(address: str, text: str):
    find_urls_in_text([address], text)
    normalized = normalize_url(address)
    assert normalized is None or normalize_url(f"https://{normalized}") == normalized


def test_a_very_long_run_of_characters_takes_no_time():
    text = "https://example.com/" + ").," * 20_000
    assert not find_urls_in_text(["https://example.com/x"], text)
    assert not find_urls_in_text(["https://example.com/x"], "(" * 50_000 + "example.com")


def test_a_text_that_would_take_too_long_has_no_url_and_repeats_any():
    text = "https://example.com/ü," * 3000
    assert not find_urls_in_text(["https://example.com/é"], text + " https://example.com/é")
    assert is_url_prefix_in_text("https://example.com/é", text)
