"""/context: what the next prompt is made of, with the server's count of the last one beside the estimate."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bot.db.engine import Database
from bot.telegram.commands.prompt_context import MAX_LISTED_PARTS, format_prompt_breakdown
from bot.turns.context_window import PromptBreakdown
from tests.support.update_harness import ANNA, UpdateHarness

MADE = PromptBreakdown(
    (("system text", 118), ("tool clock", 64), ("4 turns", 1318)), 1500, 8000, 1480, 1400, 0
)


async def test_it_tells_parts_sum_and_the_servers_count(database: Database):
    front = UpdateHarness(database)
    await front.let_in(ANNA)
    front.prompt_breakdown = MADE
    (sent,) = await front.send_text("/context please")
    assert sent.text.splitlines() == [
        "My next prompt, tokens estimated:",
        "system text: 118",
        "tool clock: 64",
        "4 turns: 1.3k",
        "Together: 1.5k of 8.0k, and what you write",
        "Last time the server counted: 1.4k, 1.4k of it cached",
    ]


@pytest.mark.parametrize(
    ("prompt", "cached", "told"),
    [
        (None, None, "unknown"),
        (1480, None, "1.4k, cached unknown"),
        (1480, 0, "1.4k, nothing of it cached"),
    ],
)
def test_what_the_server_did_not_tell_is_unknown(prompt: int | None, cached: int | None, told: str):
    *_, last = format_prompt_breakdown(replace(MADE, last_prompt_tokens=prompt, last_cached_tokens=cached))
    assert last == f"Last time the server counted: {told}"


@pytest.mark.parametrize(("turns", "told"), [(1, "1 turn has left"), (30, "30 turns have left")])
def test_what_has_left_the_prompt_is_told(turns: int, told: str):
    *_, last = format_prompt_breakdown(replace(MADE, left_out_turns=turns))
    assert last == f"{told} the prompt; I can look them up."


def test_very_many_tools_are_summed_up():
    def tools() -> Iterator[tuple[str, int]]:
        for number in range(500):
            yield f"tool {'x' * 64}{number}", 10

    told = list(format_prompt_breakdown(replace(MADE, parts=tuple(tools()))))
    assert f"{500 - MAX_LISTED_PARTS} more: {short_sum(500 - MAX_LISTED_PARTS)}" in told
    assert len("\n".join(told)) <= 4096


def short_sum(count: int) -> str:
    return f"{count * 10 / 1000:.1f}k"
