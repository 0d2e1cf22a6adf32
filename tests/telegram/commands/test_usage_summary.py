"""What /usage and the ranking say of what was spent, in short lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.db.conversations import calls
from bot.db.conversations.calls import NewCall
from bot.db.engine import Database
from bot.db.usage.spending import RankedSpender, SpendingOverview, SpendingSums
from bot.telegram.commands import usage_summary as spent
from tests.support.update_harness import ADMIN, ANNA, BOB, UpdateHarness


@pytest.fixture
async def front(database: Database) -> UpdateHarness:
    front = UpdateHarness(database)
    await front.let_in(ADMIN, "admin")
    await front.let_in(ANNA)
    await front.let_in(BOB)
    return front


async def test_usage_of_somebody_new_is_one_line(front: UpdateHarness):
    (sent,) = await front.send_text("/usage")
    assert sent.text == "Nothing yet. Ask me something."


async def store_uncounted_turn(front: UpdateHarness) -> None:
    """A turn whose one model call came back without usage."""
    new = NewCall(await front.store_answered_turn("hi"), 1, "turn", None, "main", "m", False, 0, 1, 1, 1)
    async with front.database.transaction() as tx:
        await calls.open_call(tx, new, now=front.now)


async def test_usage_of_a_turn_that_asked_no_model_is_nought_and_not_unknown(front: UpdateHarness):
    await front.store_answered_turn("hi")
    (sent,) = await front.send_text("/usage")
    lines = ["Last: 0 canvases est., 2.0 s", "Tokens: 0 in, 0 out"]
    assert sent.text.splitlines() == [*lines, "Today: 0 canvases est., 2.0 s", "30 d: 0 canvases est., 2.0 s"]


async def test_usage_tells_the_last_turn_and_today(front: UpdateHarness):
    await store_uncounted_turn(front)
    (sent,) = await front.send_text("/usage")
    assert sent.text.splitlines() == [
        "Last: canvases unknown, 2.0 s",
        "Tokens: unknown in, unknown out",
        "Today: canvases unknown, 2.0 s",
        "30 d: canvases unknown, 2.0 s",
    ]


async def test_usage_after_a_day_has_the_last_turn_and_an_empty_day(front: UpdateHarness):
    await store_uncounted_turn(front)
    front.now += 2 * 86_400
    (sent,) = await front.send_text("/usage")
    assert sent.text.splitlines()[2:] == ["Today: nothing yet", "30 d: canvases unknown, 2.0 s"]


def test_usage_lines_read_well():
    last = SpendingSums(1, 2, 1204, 310, 2, 6.44, is_complete=True)
    today = SpendingSums(14, 30, 18_999, 4_310, 24, 1234.0, is_complete=False)
    month = SpendingSums(99, 300, None, None, None, 7234.0, is_complete=False)
    assert spent.format_summary(last, today, month).splitlines() == [
        "Last: 2 canvases est., 6.4 s",
        "Tokens: 1.2k in, 310 out",
        "Today: ≥24 canvases est., 21 min",
        "30 d: canvases unknown, 2 h",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.04, "0.0 s"), (99.9, "99.9 s"), (100.2, "100 s"), (3600, "60 min"), (7200, "2 h")],
)
def test_seconds_are_told_as_precisely_as_it_matters(seconds: float, told: str):
    took = SpendingSums(1, 1, 1, 1, 1, seconds, is_complete=True)
    line = spent.format_summary(None, took, took).splitlines()[0]
    assert line == f"Today: 1 canvas est., {told}"


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


@given(st.none() | spendings, spendings, spendings)
def test_usage_is_at_most_four_lines_under_36_characters(
    last: SpendingSums | None, today: SpendingSums, month: SpendingSums
):
    lines = spent.format_summary(last, today, month).splitlines()
    assert len(lines) <= 4
    assert max(map(len, lines)) < 36


ranked = st.lists(st.builds(RankedSpender, st.text(min_size=1, max_size=64), spendings), max_size=3)


@given(spendings, spendings, ranked, ranked)
def test_a_ranking_is_short_lines_too(
    today: SpendingSums, month: SpendingSums, people: list[RankedSpender], chats: list[RankedSpender]
):
    lines = spent.format_ranking(today, SpendingOverview(month, tuple(people), tuple(chats))).split("\n")
    assert len(lines) == 5 + len(people) + len(chats)
    assert max(map(len, lines)) < 36


def test_the_tenth_of_a_ranking_is_a_short_line_too():
    took = SpendingSums(1, 1, 1, 1, 123_456_789, 7200.0, is_complete=False)
    chats = tuple(RankedSpender("-1009999999999999", took) for _ in range(10))
    assert max(map(len, spent.format_ranking(took, SpendingOverview(took, (), chats)).split("\n"))) < 36


@given(st.integers(0, 10**11))
def test_a_short_count_is_never_more_than_the_count(number: int):
    text = spent.abbreviate_count(number)
    sizes = {"k": 10**3, "M": 10**6, "G": 10**9}
    assert len(text) <= 4
    assert float(text.rstrip("kMG")) * sizes.get(text[-1], 1) <= number * (1 + 1e-9)
