"""Every address among the arguments of a call is found, whatever the argument is called and however deep."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.argument_urls import list_addresses

EVIL = "https://evil.example/c?q=4711"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"url": EVIL}, [EVIL]),
        ({"q": EVIL}, [EVIL]),
        ({"urls": [EVIL, "https://a.example"]}, [EVIL, "https://a.example"]),
        ({"options": {"callback": [{"to": EVIL}]}}, [EVIL]),
        ({"headers": {EVIL: "x"}}, [EVIL]),
        ({"prompt": f"Sum up ({EVIL}), please"}, [EVIL]),
        ({"prompt": f"one:{EVIL},https://a.example/x."}, [EVIL, "https://a.example/x"]),
        ({"body": '{"url":"https://evil.example/c?q=4711"}'}, [EVIL]),
        ({"q": "what is on (evil.example/c?q=4711), now?"}, ["evil.example/c?q=4711"]),
        ({"body": '{"site":"evil.example?q=4711"}'}, ["evil.example?q=4711"]),
        ({"text": f"{EVIL} and more of it"}, [f"{EVIL} and more of it"]),
        ({"text": f"{EVIL}\nhttps://a.example"}, [EVIL, "https://a.example"]),
        ({"target": "evil.example/?q=4711"}, ["evil.example/?q=4711"]),
        ({"target": "evil\u3002example?q=4711"}, ["evil\u3002example?q=4711"]),
        ({"target": "ann@evil.example:8080/4711"}, ["ann@evil.example:8080/4711"]),
        ({"target": "8.8.8.8/4711"}, ["8.8.8.8/4711"]),
        ({"target": "//evil.example/4711"}, ["//evil.example/4711"]),
        ({"domain": "4711.evil.example"}, ["4711.evil.example"]),
        ({"includeDomains": ["4711.evil.example"]}, ["4711.evil.example"]),
        ({"siteURL": "4711.evil.example"}, ["4711.evil.example"]),
        ({"link": "evil.example, 8.8.8.8"}, ["evil.example", "8.8.8.8"]),
        (
            {"text": "see evil.example/?q=4711;https://a.example/"},
            ["evil.example/?q=4711", "https://a.example/"],
        ),
        (
            {"text": "see https://a.example/;evil.example/?q=4711"},
            ["https://a.example/;evil.example/?q=4711"],
        ),
        ({"text": "https:evil.example/4711"}, ["https:evil.example/4711"]),
        ({"text": "go to https:\\\\evil.example"}, ["https:\\\\evil.example"]),
        ({"text": "WSS://evil.example/4711"}, ["WSS://evil.example/4711"]),
        ({"text": "see ftp://evil.example/4711!"}, ["ftp://evil.example/4711"]),
        ({"text": "see ht\ntps:evil.example"}, ["see ht\ntps:evil.example"]),
        ({"text": "see https%3A%2F%2Fevil.example"}, ["see https%3A%2F%2Fevil.example"]),
        ({"text": "see https:\\/\\/evil.example"}, ["https:\\/\\/evil.example"]),
        (
            {"text": "see https\\u003a\\u002f\\u002fevil.example"},
            ["see https\\u003a\\u002f\\u002fevil.example"],
        ),
        ({"q": "evil%2eexample/4711"}, ["evil%2eexample/4711"]),
        ({"q": "see https%253A%252F%252Fevil.example"}, ["see https%253A%252F%252Fevil.example"]),
        ({"q": "evil.example\\4711"}, ["evil.example\\4711"]),
        ({"text": "see https&#58;//evil.example"}, ["see https&#58;//evil.example"]),
        ({"text": f"see {EVIL} and https%3A//b.example"}, [EVIL, f"see {EVIL} and https%3A//b.example"]),
    ],
)
def test_an_address_is_found_wherever_it_stands(arguments: dict[str, Any], expected: list[str]):
    assert list(list_addresses(arguments, None)) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"amount": 4711, "on": True, "none": None, "items": [1, []]},
        {"q": "best tea in town"},
        {"q": "what does a.b mean in example.com?", "s": "site:example.com and/or a.b/ e.g./i.e."},
        {"path": "src/main.py", "file": "README.md", "version": "1.2.3", "ref": "v1.2.3/x"},
        {"to": "ann@example.com", "address": "12 Main Street, Rome"},
        {"email_address": "ann@example.com"},
        {"when": "2026-11-22T10:00:00Z", "time": "12:30", "note": "ratio 3:4; see: this"},
        {"text": 'and/or, he said: "http is old"'},
        {"server": "prod", "host": "localhost", "site": "3"},
    ],
)
def test_what_is_no_address_is_left_alone(arguments: dict[str, Any]):
    assert list(list_addresses(arguments, None)) == []


def test_all_that_the_opened_argument_holds_counts():
    assert list(list_addresses({"page": "start", "x": 1}, "page")) == ["start"]
    assert list(list_addresses({"page": ["start", 7]}, "page")) == ["start", 7]
    assert list(list_addresses({"page": {"a": 1}}, "page")) == [{"a": 1}]
    assert list(list_addresses({"page": None}, "page")) == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=4),
    st.lists(st.sampled_from("ab[{"), max_size=4),
)
def test_an_address_is_found_in_any_value(arguments: dict[str, Any], nesting: list[str]):
    value: Any = EVIL
    for kind in nesting:
        value = {"a": {"k": value}, "b": {value: 1} if isinstance(value, str) else value}.get(kind, [value])
    assert EVIL in list(list_addresses({**arguments, "x": value}, None))
