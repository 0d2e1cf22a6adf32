"""Killed at random moments, many times: nothing is lost, nothing is answered twice, and doubt is said."""

import itertools
import json
import random
import sys
from collections.abc import Sequence

from tests.kill import crowd
from tests.kill.conftest import OpenEnvironment
from tests.kill.crowd import STOP, Chatter, Reaper, Waverer, expected_words
from tests.kill.environment import KillEnvironment
from tests.support.breakdown_clock import check_breakdowns

CHATS = 9
WAVERERS = 3
MESSAGES = 70
KILLS = 15


async def test_a_sweep_of_kills(surround: OpenEnvironment):
    """Some people change their minds."""
    environment = await surround(crowd.build_endpoint(), model_max_tokens=4096, start=False)
    reaper = Reaper(environment, random.Random(1))
    numbers = itertools.takewhile(lambda n: n < MESSAGES or reaper.kills < KILLS, itertools.count())
    chatters = [
        (Waverer if n < WAVERERS else Chatter)(
            environment, environment.api.person(100 + n), random.Random(100 + n), numbers
        )
        for n in range(CHATS)
    ]
    await crowd.sweep(environment, reaper, chatters)
    message_count = sum(len(chatter.sent) for chatter in chatters)
    doubts = len(environment.load_rows("select 1 from outbox where state = 'unknown'"))
    sys.stdout.write(f"{message_count} messages, {reaper.kills} kills, {doubts} sends of unknown outcome\n")
    assert message_count >= MESSAGES
    assert reaper.kills >= KILLS
    environment.assert_all_accounted()
    assert_all_answered(environment, chatters[:WAVERERS], needs_all=False)
    assert_all_answered(environment, chatters[WAVERERS:], needs_all=True)
    assert_stored_once(environment, [pair for chatter in chatters[WAVERERS:] for pair in chatter.sent])
    assert_nothing_can_be_stopped(environment, chatters)
    await environment.wait_for_row("select 1 where not exists (select 1 from inbox where spans is not null)")
    [(turn_count,)] = environment.load_rows("select count(*) from turns")
    assert len(check_breakdowns(environment.folder / "gateway.db")) == turn_count


def assert_nothing_can_be_stopped(environment: KillEnvironment, chatters: Sequence[Chatter]) -> None:
    """Assert that each message has a turn or a reason, and that no finished answer can be stopped."""
    undone = environment.load_rows(
        "select id from inbox where shape = 'text' and turn is null and error is null"
    )
    assert undone == []
    delivered_ids = {
        row[0] for row in environment.load_rows("select message_id from outbox where state = 'done'")
    }
    shown_messages = [message for chatter in chatters for message in environment.messages(chatter.person.id)]
    assert not [
        message
        for message in shown_messages
        if message.message_id in delivered_ids and any(button["text"] == STOP for button in message.buttons)
    ]


def assert_all_answered(
    environment: KillEnvironment, chatters: Sequence[Chatter], *, needs_all: bool
) -> None:
    """Assert that every answer is there once, and twice only if it was in doubt or asked for."""
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
            if needs_all and kind == "long":
                half_shown = sum(text.count(f"B{name}") - text.count(f"E{name}") for text in seen)
                assert half_shown <= doubts, (name, half_shown, doubts)
        assert_in_order(seen, [name for kind, name in chatter.sent if kind != "command"], doubted)


def assert_in_order(texts: list[str], sent: list[str], doubted: list[str]) -> None:
    """Assert that answers which were never in doubt stand in the order of their messages."""
    certain = [name for name in sent if not any(f"B{name}" in body for body in doubted)]
    all_text = "\n".join(texts)
    positions = [all_text.index(f"B{name}") for name in certain if f"B{name}" in all_text]
    assert positions == sorted(positions)


def assert_stored_once(environment: KillEnvironment, sent: list[tuple[str, str]]) -> None:
    """Assert that each message was stored once, and each tool took effect once."""
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
