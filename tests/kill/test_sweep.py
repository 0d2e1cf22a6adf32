"""Killed over and over at random moments: nothing is lost, nothing is answered twice, and doubt is said."""

import itertools
import json
import random
import sys
from collections.abc import Sequence

import pytest

from tests.kill import crowd
from tests.kill.conftest import OpenEnvironment
from tests.kill.crowd import STOP, Chatter, Reaper, Waverer, expected_words
from tests.kill.environment import KillEnvironment

CHATS, MESSAGES, KILLS = 12, 300, 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
async def test_a_sweep_of_kills(surround: OpenEnvironment, seed: int):
    house = await surround(crowd.build_endpoint(), model_max_tokens=4096, start=False)
    chatters = await sweep_with_kills(house, Chatter, seed, MESSAGES, KILLS)
    assert_all_answered(house, chatters)
    assert_stored_once(house, [pair for chatter in chatters for pair in chatter.sent])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [2])
async def test_a_sweep_of_kills_among_people_who_change_their_minds(surround: OpenEnvironment, seed: int):
    house = await surround(crowd.build_endpoint(), model_max_tokens=4096, start=False)
    chatters = await sweep_with_kills(house, Waverer, seed, MESSAGES // 2, KILLS // 2)
    assert_all_answered(house, chatters, needs_all=False)
    undone = house.load_rows("select id from inbox where shape = 'text' and turn is null and error is null")
    assert undone == []
    known = {row[0] for row in house.load_rows("select message_id from outbox where state = 'done'")}
    shown = [message for chatter in chatters for message in house.messages(chatter.person.id)]
    assert not [
        one for one in shown if one.message_id in known and any(b["text"] == STOP for b in one.buttons)
    ]


async def sweep_with_kills(
    environment: KillEnvironment, kind: type[Chatter], seed: int, messages: int, kills: int
) -> list[Chatter]:
    """The people, once they have written so many messages or more, at so many kills or more."""
    reaper = Reaper(environment, random.Random(seed))
    numbers = itertools.takewhile(lambda n: n < messages or reaper.kills < kills, itertools.count())
    people = [
        kind(environment, environment.api.person(100 + n), random.Random(seed * 100 + n), numbers)
        for n in range(CHATS)
    ]
    await crowd.sweep(environment, reaper, people)
    wrote = sum(len(one.sent) for one in people)
    doubts = len(environment.load_rows("select 1 from outbox where state = 'unknown'"))
    sys.stdout.write(
        f"seed {seed}: {wrote} messages, {reaper.kills} kills, {doubts} sends of unknown outcome\n"
    )
    assert (wrote >= messages, reaper.kills >= kills) == (True, True)
    return people


def assert_all_answered(
    environment: KillEnvironment, chatters: Sequence[Chatter], *, needs_all: bool = True
) -> None:
    """Every answer is there once; or twice at most where that was in doubt, or where the person wanted it
    again.
    """
    environment.assert_all_accounted()
    rows = environment.load_rows(
        "select state, copy_of, body from outbox where body is not null and about is null"
    )
    doubted = [body for state, _, body in rows if state == "unknown"]
    copied = [body for state, copy_of, body in rows if state == "done" and copy_of is not None]
    for chatter in chatters:
        seen = environment.texts(chatter.person.id)
        for kind, name in chatter.sent:
            for word in expected_words(kind, name):
                copies = sum(word in body for body in copied)
                doubts = sum(word in body for body in doubted)
                times = sum(text.count(word) for text in seen)
                assert max(needs_all, copies) <= times <= copies + max(1, doubts), (
                    word,
                    times,
                    copies,
                    doubts,
                )
        assert_in_order(seen, [name for kind, name in chatter.sent if kind != "command"], doubted)


def assert_in_order(texts: list[str], sent: list[str], doubted: list[str]) -> None:
    """What was never in doubt stands in the order it was asked for."""
    certain = [name for name in sent if not any(f"B{name}" in body for body in doubted)]
    everything = "\n".join(texts)
    places = [everything.index(f"B{name}") for name in certain if f"B{name}" in everything]
    assert places == sorted(places)


def assert_stored_once(environment: KillEnvironment, sent: list[tuple[str, str]]) -> None:
    """Each message was kept once; what tools did, they did once."""
    texts = [text for (text,) in environment.load_rows("select text from messages where role = 'user'")]
    outcomes = {
        (name, json.loads(arguments).get("address", "")[-3:]): outcome
        for name, arguments, outcome in environment.load_rows(
            "select name, arguments, outcome from tool_calls"
        )
    }
    notes = [text for (text,) in environment.load_rows("select text from notes")]
    for kind, name in sent:
        assert sum(text.endswith(f"{kind} {name}") for text in texts) == (kind != "command")
        assert notes.count(f"note {name}") <= 1
        if kind == "ring":
            assert environment.bells.rung[name] <= 1
            assert environment.bells.rung[name] == 1 or outcomes["ring", name] == "unknown"
        if kind == "look":
            assert environment.bells.rung[name] >= 1
            assert outcomes["look", name] == "ok"
