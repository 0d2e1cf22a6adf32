"""/context: what the next prompt consists of, estimated, and the server's count of the last one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bot.chat.commands.prompt_context import MAX_LISTED_PARTS, format_prompt_breakdown
from bot.db.engine import Database
from bot.translations.translator import ENGLISH
from bot.turns.context_window import PromptBreakdown
from tests.support.update_harness import ANNA, BOB, UpdateHarness

MADE = PromptBreakdown(
    (("system text", 118), ("tool clock", 64), ("earlier messages", 1318)), 1500, 8000, 1480, 1400, 0
)


async def test_the_parts_and_their_sum_are_shown_and_admins_the_servers_count(database: Database):
    harness = UpdateHarness(database)
    await harness.let_in(ANNA, "admin")
    await harness.let_in(BOB)
    harness.prompt_breakdown = MADE
    (sent,) = await harness.send_text("/context please")
    (sent_to_member,) = await harness.send_text("/context please", person=BOB)
    assert sent.text.splitlines()[:-1] == sent_to_member.text.splitlines()
    assert sent.text.splitlines() == [
        "What I see with your next message, in tokens, which are pieces of words (estimated):",
        "system text: 118",
        "tool clock: 64",
        "earlier messages: 1.3K",
        "Total: 1.5K of 8K, plus what you write",
        "The server's last count: 1.4K, 1.4K of it cached",
    ]


@pytest.mark.parametrize(
    ("prompt", "cached", "text"),
    [
        (None, None, "unknown"),
        (1480, None, "1.4K; cached: unknown"),
        (1480, 0, "1.4K, none of it cached"),
    ],
)
def test_what_the_server_did_not_report_is_unknown(prompt: int | None, cached: int | None, text: str):
    *_, last = format_prompt_breakdown(
        ENGLISH, replace(MADE, last_prompt_tokens=prompt, last_cached_tokens=cached), for_admins=True
    )
    assert last == f"The server's last count: {text}"


@pytest.mark.parametrize(
    ("turns", "text"),
    [(1, "1 earlier answer, but I can look it up"), (30, "30 earlier answers, but I can look them up")],
)
def test_turns_that_have_left_the_prompt_are_counted(turns: int, text: str):
    *_, last = format_prompt_breakdown(ENGLISH, replace(MADE, left_out_turns=turns), for_admins=True)
    assert last == f"I no longer see {text}."


def test_very_many_tools_are_summed_up():
    def tools() -> Iterator[tuple[str, int]]:
        for number in range(500):
            yield f"tool {'x' * 64}{number}", 10

    lines = list(format_prompt_breakdown(ENGLISH, replace(MADE, parts=tuple(tools())), for_admins=False))
    assert f"{500 - MAX_LISTED_PARTS} more: {short_sum(500 - MAX_LISTED_PARTS)}" in lines
    assert len("\n".join(lines)) <= 4096


def short_sum(count: int) -> str:
    return f"{count * 10 / 1000:.1f}K"
