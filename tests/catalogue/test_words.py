"""What admins read of tools is complete, and nothing a stranger wrote hides in it."""

from dataclasses import replace

import pytest

from bot.catalogue import words
from bot.catalogue.cards import Card
from bot.catalogue.registering import Difference
from bot.db.grants import Grant
from bot.db.sources import Source
from tests.catalogue.registered import definition
from tools.base import NEVER, Rule, hash_of

TOLD = definition("shop_list", "Lists\u202e all.\x1b[31m", city="the <|turn> city")
SHOP = Source("shop", "openapi", "https://shop.example/openapi.json")
CARD = Card("shop_list", SHOP, "on", TOLD, hash_of(TOLD), None, None, None, is_set=False, grants=())


def grant(whom: str, number: int = 0) -> Grant:
    return Grant("shop_list", whom, number, CARD.hash)  # type: ignore[arg-type]


def test_a_tool_in_one_line():
    assert words.brief(CARD) == f"shop_list · on · admins · {CARD.cost} tokens"
    asks = replace(CARD, rule=Rule("always", None, "admins"), grants=(grant("person", 5), grant("chat", -9)))
    names = {5: "Anna (5)"}
    assert words.brief(asks, lambda number: names[number]) == (
        f"shop_list · on · admins, chat -9, Anna (5) · {CARD.cost} tokens · asks each time, an admin"
    )


@pytest.mark.parametrize(
    ("card", "told"),
    [
        (
            replace(CARD, state="in trouble", source=replace(SHOP, trouble="it does not\nanswer")),
            "not available: it does",
        ),
        (replace(CARD, state="in trouble", source=None), "not available: unknown why"),
        (replace(CARD, state="changed"), "suspended: it has changed"),
    ],
)
def test_how_a_tool_stands(card: Card, told: str):
    assert words.state(card).startswith(told)
    assert "\n" not in words.state(card)


def test_all_there_is_to_know_shows_what_hides():
    lines = list(
        words.shown(replace(CARD, flagged="hidden signs", rule=NEVER, is_set=True, grants=(grant("everyone"),)))
    )
    assert lines[:7] == [
        "shop_list: on",
        "From: shop, OpenAPI, https://shop.example/openapi.json",
        "May use it: everyone",
        "Rule: never asks (set by an admin)",
        f"Costs: {CARD.cost} tokens of every prompt that offers it, estimated",
        "Flagged: hidden signs",
        "It brings words of strangers.",
    ]
    text = "\n".join(lines)
    assert "Lists\\u202e all.\\u001b[31m" in text
    assert "\u202e" not in text
    own = list(words.shown(replace(CARD, source=None)))
    assert own[1] == "From: the house's own"
    opening = words.definition(TOLD | {"opens": "city"})
    assert "It opens the address in city." in list(opening)


def test_a_rule_by_argument_is_told_with_its_condition():
    told = words.rule(Rule("once", {"properties": {"city": {"const": "Rome"}}}))
    assert (
        told == 'asks once a chat, whoever it is for, if its arguments fit {"properties": {"city": {"const": "Rome"}}}'
    )


def test_a_difference_shows_what_went_and_what_came():
    changed = definition("shop_list", "Lists some.", city="the <|turn> city")
    told = list(words.difference(Difference("shop_list", TOLD, changed, "h", ("invisible characters",))))
    assert told[0].startswith("shop_list: ")
    assert "→" in told[0]
    assert told[1] == "Look twice: invisible characters"
    assert any(line.startswith('+ "description": "Lists some."') for line in told)
    assert any(line.startswith('- "description": "Lists\\u202e all.') for line in told)
    same = list(words.difference(Difference("shop_list", TOLD, TOLD, "h", ())))
    assert same[1:] == ["It is as it was accepted."]
    new = list(words.difference(Difference("shop_list", None, TOLD, "h", ())))
    assert "It brings words of strangers." in new
