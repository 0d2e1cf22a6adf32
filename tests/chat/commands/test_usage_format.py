"""/usage in short lines: the sums of the last turn and of 30 days, the ranking, and one turn in detail."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from bot.chat.commands import usage_format
from bot.chat.commands.usage_format import (
    MAX_LISTED_CALLS,
    format_answers,
    format_details,
    format_member_details,
    format_ranking,
    format_summary,
    format_thinking,
)
from bot.db.conversations import calls as call_rows
from bot.db.conversations.calls import NewCall
from bot.db.engine import Database
from bot.db.tables import turns
from bot.db.usage.spending import (
    NewestTurn,
    RankedSpender,
    SpendingOverview,
    SpendingSums,
)
from bot.db.usage.thinking_sums import ThinkingSums
from bot.db.usage.turn_steps import CallStep, TurnSteps
from bot.domain import EndpointRole
from bot.translations.translator import ENGLISH
from bot.usage.json_records import RETRY_REASONS
from bot.usage.report import INTERVAL_COLUMNS
from tests.support import turn_steps
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness

CALL = replace(
    turn_steps.CALL,
    model="diffusiongemma",
    thinking=False,
    prompt_tokens=1204,
    cached_tokens=1100,
    completion_tokens=200,
    created_at=100.0,
    seat_at=100.001,
    ended_at=101.421,
)
CANVAS_LINE = "Canvas: up to 256 tokens at once"
UNKNOWN = replace(
    CALL,
    model="",
    prompt_tokens=None,
    cached_tokens=None,
    completion_tokens=None,
    seat_at=None,
    ended_at=None,
    outcome=None,
)


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ADMIN, "admin")
    await harness.let_in(ANNA, "admin")
    await harness.let_in(BOB)
    return harness


async def test_usage_of_somebody_new_is_one_line(harness: UpdateHarness):
    (sent,) = await harness.send_text("/usage")
    assert sent.text == "Nothing yet. Ask me something."


async def store_uncounted_turn(harness: UpdateHarness) -> None:
    """Store a turn whose one model call came back without usage."""
    new = NewCall(await harness.store_answered_turn("hi"), 1, "turn", None, "main", "m", False, 0, 1, 1, 1)
    async with harness.database.transaction() as tx:
        await call_rows.open_call(tx, new, now=harness.now)


async def test_usage_of_a_turn_without_model_calls_is_zero_and_not_unknown(harness: UpdateHarness):
    await harness.store_answered_turn("hi")
    (sent,) = await harness.send_text("/usage")
    lines = ["Answer: 2s, 0 canvases est.", "Tokens: 0 in, 0 out"]
    assert sent.text.splitlines() == [
        *lines,
        "Today: 2s, 0 canvases est.",
        "30 d: 2s, 0 canvases est.",
        CANVAS_LINE,
    ]


async def test_usage_shows_the_last_turn_and_today(harness: UpdateHarness):
    await store_uncounted_turn(harness)
    (sent,) = await harness.send_text("/usage")
    assert sent.text.splitlines() == [
        "Answer: 2s, canvases unknown",
        "Tokens: unknown in, unknown out",
        "Today: 2s, canvases unknown",
        "30 d: 2s, canvases unknown",
        "Unknown: the server sent no count",
        CANVAS_LINE,
    ]


async def test_a_turn_that_was_stopped_uncounted_is_said_to_be_stopped(harness: UpdateHarness):
    await store_uncounted_turn(harness)
    async with harness.database.transaction() as tx:
        await tx.execute(update(turns).values(ending="stopped"))
    (sent,) = await harness.send_text("/usage")
    assert sent.text.splitlines() == [
        "Last answer: stopped after 2s",
        "Today: 2s, canvases unknown",
        "30 d: 2s, canvases unknown",
        "Unknown: the server sent no count",
        CANVAS_LINE,
    ]
    sums = SpendingSums(1, 1, None, None, None, 2.0, is_complete=False)
    stopped = NewestTurn(1, sums, was_stopped=True)
    assert format_answers(ENGLISH, stopped, sums, sums).startswith("Last answer: stopped after 2s\n")
    counted = SpendingSums(1, 1, 1204, 310, 2, 2.0, is_complete=False)
    stopped = NewestTurn(1, counted, was_stopped=True)
    assert format_summary(ENGLISH, stopped, counted, counted).startswith(
        "Last answer: stopped after 2s\nTokens: ≥1.2K in, ≥310 out\n"
    )


async def test_usage_after_a_day_has_the_last_turn_and_an_empty_day(harness: UpdateHarness):
    await store_uncounted_turn(harness)
    harness.now += 2 * 86_400
    (sent,) = await harness.send_text("/usage")
    assert sent.text.splitlines()[2:] == [
        "Today: nothing yet",
        "30 d: 2s, canvases unknown",
        "Unknown: the server sent no count",
        CANVAS_LINE,
    ]


def test_usage_lines_read_well():
    last = NewestTurn(1, SpendingSums(1, 2, 1204, 310, 2, 6.44, is_complete=True))
    today = SpendingSums(14, 30, 18_999, 4_310, 24, 1234.0, is_complete=False)
    month = SpendingSums(99, 300, None, None, None, 7234.0, is_complete=False)
    assert format_summary(ENGLISH, last, today, month).splitlines() == [
        "Answer: 6.4s, 2 canvases est.",
        "Tokens: 1.2K in, 310 out",
        "Today: 21m, ≥24 canvases est.",
        "30 d: 2h, canvases unknown",
        "Unknown: the server sent no count",
        CANVAS_LINE,
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0s"), (99.9, "99.9s"), (100.2, "100s"), (3600, "60m"), (7200, "2h")],
)
def test_seconds_are_shown_as_precisely_as_it_matters(seconds: float, text: str):
    sums = SpendingSums(1, 1, 1, 1, 1, seconds, is_complete=True)
    line = format_summary(ENGLISH, None, sums, sums).splitlines()[0]
    assert line == f"Today: {text}, 1 canvas est."


counts = st.none() | st.integers(0, 10**10)
spendings = st.builds(
    SpendingSums,
    st.integers(1, 10**5),
    st.integers(0, 10**5),
    counts,
    counts,
    counts,
    st.floats(0, 10**6),
    st.booleans(),
)


@settings(max_examples=40)
@given(st.none() | st.builds(NewestTurn, st.just(1), spendings, st.booleans()), spendings, spendings)
def test_usage_is_at_most_six_lines_under_36_characters(
    last: NewestTurn | None, today: SpendingSums, month: SpendingSums
):
    lines = format_summary(ENGLISH, last, today, month).splitlines()
    assert len(lines) <= 6
    assert max(map(len, lines)) < 36


thinking_counts = st.integers(0, 10**10)
thinking_sums = st.builds(
    ThinkingSums,
    thinking=st.booleans(),
    turns=st.integers(1, 10**5),
    endings=st.dictionaries(
        st.sampled_from(["answered", "cut", "stopped", "limit", None]), st.integers(0, 10**5)
    ),
    replaced=st.integers(0, 999),
    timed=st.integers(0, 10**5),
    seconds=st.floats(0, 10**6),
    calls=thinking_counts,
    counted=thinking_counts,
    partial=thinking_counts,
    canvases=thinking_counts,
    thought_tokens=thinking_counts,
    unknown_thoughts=thinking_counts,
    reads=thinking_counts,
    read_seconds=st.floats(0, 10**6),
)


@settings(max_examples=40)
@given(st.lists(thinking_sums, max_size=2, unique_by=lambda sums: sums.thinking))
def test_what_thinking_cost_is_at_most_six_lines_under_36_characters(all_sums: list[ThinkingSums]):
    lines = format_thinking(ENGLISH, all_sums)
    assert len(lines) <= 5
    assert max(map(len, lines), default=0) < 36


def test_what_thinking_cost_stands_beside_all_turns():
    endings: dict[str | None, int] = {"answered": 2, "stopped": 1, "limit": 5, None: 1}
    thought = ThinkingSums(True, 9, endings, 1, 8, 45.0, 12, 12, 0, 28, 9000, 0, 2, 0.5)
    plain = ThinkingSums(False, 41, {"answered": 41}, 0, 41, 120.0, 60, 59, 0, 62, 0, 0, 0, 0.0)
    assert format_thinking(ENGLISH, [thought, plain]) == [
        "Thinking, 30 d: 9 of 50 turns",
        "    28 of ≥90 canvases est.",
        "    45s of 165s",
        "    answered 66%, without 100%",
        "    asked again 1, without 0",
    ]
    uncounted = replace(thought, counted=0, canvases=0, replaced=0, endings={None: 9})
    assert format_thinking(ENGLISH, [uncounted])[1:] == [
        "    ? of ? canvases est.",
        "    45s of 45s",
        "    answered –, without –",
    ]
    assert format_thinking(ENGLISH, [plain]) == []


def test_the_tools_of_a_turn_are_named_up_to_a_few():
    names = tuple(f"tool_{number}" for number in range(10))
    details = format_details(
        ENGLISH, replace(build_turn(False, "it looks light", "main", None, 1.5, ()), used=names)
    )
    assert "Tools: tool_0, tool_1, tool_2, tool_3, tool_4, tool_5, tool_6, tool_7 and 2 more" in details


ranked = st.lists(st.builds(RankedSpender, st.text(min_size=1, max_size=64), spendings), max_size=3)


@settings(max_examples=40)
@given(spendings, spendings, ranked, ranked)
def test_a_ranking_is_short_lines_too(
    today: SpendingSums, month: SpendingSums, people: list[RankedSpender], chats: list[RankedSpender]
):
    text = format_ranking(ENGLISH, today, SpendingOverview(month, tuple(people), tuple(chats)))
    lines = text.replace("\u2068", "").replace("\u2069", "").split("\n")  # marks that take no place
    assert len(lines) == 5 + len(people) + len(chats)
    assert max(map(len, lines)) < 36


def test_the_tenth_of_a_ranking_is_a_short_line_too():
    sums = SpendingSums(1, 1, 1, 1, 123_456_789, 7200.0, is_complete=False)
    chats = tuple(RankedSpender("-1009999999999999", sums) for _ in range(10))
    assert max(map(len, format_ranking(ENGLISH, sums, SpendingOverview(sums, (), chats)).split("\n"))) < 36


def build_turn(
    thinking: bool,
    reason: str,
    endpoint: EndpointRole,
    endpoint_why: str | None,
    seconds: float,
    calls: tuple[CallStep, ...],
    account: dict[str, float] | None = None,
) -> TurnSteps:
    return replace(
        turn_steps.TURN,
        thinking=thinking,
        thinking_why=reason,
        endpoint=endpoint,
        endpoint_why=endpoint_why,
        ended_at=turn_steps.TURN.received_at + seconds,
        account=account or {},
        calls=calls,
    )


def test_a_plain_turn_takes_a_few_lines():
    assert format_details(
        ENGLISH, build_turn(False, "one light tool: clock", "main", None, 1.5, (CALL,))
    ).splitlines() == [
        "Answer 12: 1.5s",
        "Thinking: off",
        "Why: one light tool: clock",
        "Model calls, canvases estimated:",
        "1. 1 canvas, 1.4s",
        "    1.2K in, 1.1K cached",
        "Cached: 91.4% of the input",
        "Model: diffusiongemma",
    ]


def test_the_breakdown_of_the_seconds_is_shown():
    account = {"whole": 8.0, "intake": 0.01, "seat_wait": 0.0, "first_canvas": 6.25, "telegram": 1.74}
    lines = format_details(
        ENGLISH, replace(build_turn(False, "no tool fits", "main", None, 6.5, (CALL,)), account=account)
    ).splitlines()
    assert lines[-4:-1] == ["Where 8s went:", "    6.2s until the first text", "    1.7s for Telegram"]


def test_members_are_shown_the_tools_and_the_seconds():
    account = {"whole": 8.0, "first_canvas": 6.25, "telegram": 1.74}
    turn = replace(build_turn(False, "no tool fits", "main", None, 6.5, (CALL,)), account=account)
    assert format_member_details(ENGLISH, replace(turn, used=("clock",))).splitlines() == [
        "Answer 12: 8s",
        "Thinking: off",
        "Tools: clock",
        "Where 8s went:",
        "    6.2s until the first text",
        "    1.7s for Telegram",
    ]


def test_what_the_server_did_not_report_is_unknown():
    assert format_details(
        ENGLISH, build_turn(True, "", "main", None, 1.5, (UNKNOWN, replace(CALL, cached_tokens=None)))
    ).splitlines()[1:] == [
        "Thinking: on",
        "Why: unknown",
        "Call 1: thinking off",
        "Model calls, canvases estimated:",
        "1. canvases unknown, time unknown, not finished",
        "    tokens unknown",
        "2. 1 canvas, 1.4s",
        "    1.2K in, cached unknown",
        "Model: unknown → diffusiongemma",
    ]


def test_every_reason_for_a_repeated_call_has_words_and_a_column():
    assert set(usage_format._RETRY_REASONS) == set(RETRY_REASONS)


def test_a_cached_share_says_of_how_many_calls_it_is_known():
    lines = format_details(
        ENGLISH, build_turn(True, "", "main", None, 1.5, (CALL, replace(CALL, cached_tokens=None), UNKNOWN))
    ).splitlines()
    assert lines[-3:-1] == ["Cached: 91.4% of the input", "    known for 1 of 3 calls"]


def test_a_turn_without_calls_says_so():
    assert format_details(ENGLISH, build_turn(False, "thinking is off", "main", None, 0.1, ())).splitlines()[
        3:
    ] == ["Model calls: none"]


def test_switches_and_repeated_calls_are_shown_with_their_reason():
    calls = (
        CALL,
        replace(CALL, again="empty"),
        replace(CALL, again="silent", thinking=True),
        replace(CALL, again="brake"),
        replace(CALL, again="more"),
        replace(CALL, again="something new"),
    )
    lines = format_details(ENGLISH, build_turn(False, "no tool fits", "main", None, 9.0, calls)).splitlines()
    assert lines[3:8] == [
        "Call 2: the last reply was empty",
        "Call 3: thinking on, two replies were empty",
        "Call 4: thinking off, it thought too long",
        "Call 5: the answer continues",
        "Call 6: something new",
    ]


def test_how_a_call_ended_and_how_long_it_waited_is_shown():
    calls = (
        replace(CALL, outcome="failed", ended_at=None),
        replace(CALL, again="away", created_at=96.801, completion_tokens=257),
        replace(CALL, outcome="cancelled"),
        replace(CALL, outcome="cut"),
    )
    lines = format_details(ENGLISH, build_turn(False, "no tool fits", "main", None, 9.0, calls)).splitlines()
    assert lines[5] == "1. 1 canvas, time unknown, failed"
    assert lines[7:9] == ["2. 2 canvases, 1.4s", "    1.2K in, 1.1K cached, waited 3.2s"]
    assert lines[9].endswith(", stopped")
    assert lines[11].endswith(", cut off")


def test_a_decision_read_is_listed_apart_from_the_calls():
    read = replace(
        UNKNOWN, purpose="decision", model="diffusiongemma", ended_at=100.31, prompt_tokens=141, outcome="ok"
    )
    text = format_details(
        ENGLISH,
        build_turn(True, "the endpoint reads 70%", "main", None, 2.0, (read, replace(CALL, thinking=True))),
    )
    assert "Whether to think: 0.3s\n    141 in\n" in text
    assert "1. 1 canvas" in text
    assert "Call 1" not in text
    lost = replace(read, ended_at=None, prompt_tokens=None, outcome="failed")
    assert "Whether to think: time unknown, failed\n    tokens unknown\n" in format_details(
        ENGLISH, build_turn(True, "x", "main", None, 2.0, (lost,))
    )


def test_of_two_endpoints_it_is_shown_which_answered_and_why():
    calls = (CALL, replace(CALL, model="gemma-4-31b"), replace(CALL, model="gemma-4-31b"))
    lines = format_details(
        ENGLISH, build_turn(False, "no tool fits", "fallback", "the first is down", 2.0, calls)
    ).splitlines()
    assert lines[-2:] == [
        "Model: diffusiongemma → gemma-4-31b",
        "Model server: the second, the first is down",
    ]
    lines = format_details(
        ENGLISH, build_turn(False, "no tool fits", "main", "it answers", 2.0, ())
    ).splitlines()
    assert lines[-2:] == ["Model calls: none", "Model server: the first, it answers"]


def test_of_very_many_calls_the_first_are_listed():
    lines = format_details(
        ENGLISH, build_turn(False, "no tool fits", "main", None, 99.0, (CALL,) * (MAX_LISTED_CALLS + 5))
    ).splitlines()
    assert f"{MAX_LISTED_CALLS}. 1 canvas, 1.4s" in lines
    assert lines[-3] == "… and 5 more calls"


def as_decision(call: CallStep) -> CallStep:
    return replace(call, purpose="decision")


def join_calls(both: tuple[list[CallStep], list[CallStep]]) -> tuple[CallStep, ...]:
    return (*both[0], *both[1])


times = st.none() | st.floats(0, 10**6)
call_steps = st.builds(
    partial(replace, CALL),
    purpose=st.sampled_from(["turn", "task"]),
    again=st.sampled_from([None, "empty", "cut", "more", "failing", "silent", "brake", "away"]),
    thinking=st.booleans(),
    prompt_tokens=counts,
    cached_tokens=counts,
    completion_tokens=st.none() | st.integers(0, 256 * 999),
    created_at=st.just(0.0),
    seat_at=times,
    ended_at=times,
    outcome=st.sampled_from([None, "ok", "cut", "cancelled", "failed"]),
)


@settings(max_examples=40)
@given(
    st.builds(
        build_turn,
        st.booleans(),
        st.just("no tool fits"),
        st.sampled_from(["main", "fallback"]),
        st.sampled_from([None, "you asked for /deep"]),
        st.floats(0, 10**6),
        st.tuples(st.lists(call_steps.map(as_decision), max_size=2), st.lists(call_steps, max_size=100)).map(
            join_calls
        ),
        st.just({}) | st.fixed_dictionaries({kind: st.floats(0, 10**6) for kind in INTERVAL_COLUMNS}),
    )
)
def test_the_details_fit_one_message_in_short_lines(turn: TurnSteps):
    text = format_details(ENGLISH, turn)
    assert len(text) <= 4096
    assert max(map(len, text.splitlines())) <= 50
