"""When the second endpoint is used, and whether it is outside the own network."""

import pytest
from hypothesis import given, strategies

from bot.db.conversations.chat_settings import Consent, ContentKind
from bot.turns.endpoints import (
    EndpointChoice,
    ModelEndpoint,
    choose_endpoint,
    is_private_host,
    parse_host,
)
from tests.support.turn_harness import ScriptedModel

TEXT_ONLY = frozenset[ContentKind]({"text"})


def endpoint(url: str) -> ModelEndpoint:
    return ModelEndpoint("fallback", url, ScriptedModel(), lambda: "gemma")


INSIDE = endpoint("http://spark:8001/v1")
OUTSIDE = endpoint("https://api.models.example/v1")


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
def test_the_own_network_is_recognized_by_name_or_number(url: str):
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


@given(strategies.ip_addresses(v=4))
def test_an_ipv4_address_in_an_ipv6_address_is_judged_alike(address: object):
    assert is_private_host(str(address)) == is_private_host(f"::ffff:{address}")


@given(strategies.text())
def test_any_host_is_judged(host: str):
    assert is_private_host(host) in {True, False}
    assert host.isascii() or not is_private_host(host)


NOT_ASKED = Consent()
NO = Consent(kinds=frozenset())
YES = Consent(kinds=TEXT_ONLY)


@pytest.mark.parametrize(
    ("fallback", "consent", "wish", "role"),
    [
        (None, YES, "deep", "main"),
        (None, YES, "hard", "main"),
        (OUTSIDE, YES, "", "main"),
        (OUTSIDE, YES, "deep", "fallback"),
        (OUTSIDE, YES, "hard", "fallback"),
        (OUTSIDE, NO, "deep", "main"),
        (OUTSIDE, NOT_ASKED, "hard", "main"),
        (INSIDE, NOT_ASKED, "deep", "fallback"),
        (INSIDE, NO, "hard", "fallback"),
    ],
)
def test_where_a_turn_begins(fallback: ModelEndpoint | None, consent: Consent, wish: str, role: str):
    choice = choose_endpoint(fallback, consent, deep=wish == "deep", wants_fallback=wish == "hard")
    assert choice.role == role
    assert choice.needs_consent == (fallback is OUTSIDE and bool(wish) and consent.kinds is None)


def test_the_choice_has_its_reason():
    assert choose_endpoint(OUTSIDE, YES, deep=True, wants_fallback=True).reason == "/deep asked for it"
    assert choose_endpoint(OUTSIDE, YES, deep=False, wants_fallback=True).reason == "the turn is a hard one"
    refused = choose_endpoint(OUTSIDE, NO, deep=True, wants_fallback=False)
    assert refused == EndpointChoice("main", "/deep asked for it, but the chat said no to api.models.example")
    waiting = choose_endpoint(OUTSIDE, NOT_ASKED, deep=False, wants_fallback=True)
    assert waiting.reason == "the turn is a hard one, but the chat has not agreed to api.models.example"
