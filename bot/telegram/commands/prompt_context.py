"""/context: what the next prompt consists of, in short lines for a phone. Estimates are labelled so."""

from collections.abc import Iterator

from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.commands.usage_format import abbreviate_count
from bot.turns import PromptBreakdown

MAX_LISTED_PARTS = 40  # further parts are summed


async def handle_context(context: ActionContext) -> ActionResult:
    """/context."""
    breakdown = await context.deps.load_prompt_breakdown(context.tx, context.lane)
    return reply_text("\n".join(format_prompt_breakdown(breakdown)))


def format_prompt_breakdown(breakdown: PromptBreakdown) -> Iterator[str]:
    """Yield the parts of the next prompt, and what the server counted for the last one."""
    yield "My next prompt, tokens estimated:"
    for label, tokens in breakdown.parts[:MAX_LISTED_PARTS]:
        yield f"{label}: {abbreviate_count(tokens)}"
    if more := breakdown.parts[MAX_LISTED_PARTS:]:
        yield f"{len(more)} more: {abbreviate_count(sum(tokens for _, tokens in more))}"
    total = abbreviate_count(breakdown.total_tokens)
    budget = abbreviate_count(breakdown.prompt_budget)
    yield f"Together: {total} of {budget}, and what you write"
    yield f"Last time the server counted: {_format_last(breakdown)}"
    if breakdown.left_out_turns:
        count = breakdown.left_out_turns
        turns = "1 turn has" if count == 1 else f"{count} turns have"
        yield f"{turns} left the prompt; I can look them up."


def _format_last(breakdown: PromptBreakdown) -> str:
    if breakdown.last_prompt_tokens is None:
        return "unknown"
    return f"{abbreviate_count(breakdown.last_prompt_tokens)}, {_format_cached(breakdown.last_cached_tokens)}"


def _format_cached(tokens: int | None) -> str:
    if tokens is None:
        return "cached unknown"
    if tokens:
        return f"{abbreviate_count(tokens)} of it cached"
    return "nothing of it cached"
