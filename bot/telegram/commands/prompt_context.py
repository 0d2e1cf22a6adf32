"""/context: what the next prompt is made of, in short lines for a phone. What is estimated is said to be."""

from collections.abc import Iterator

from bot.telegram.actions import ActionContext, ActionResult, reply_text
from bot.telegram.commands.usage_summary import abbreviate_count
from bot.turns.context_window import PromptBreakdown

MAX_LISTED_PARTS = 40  # parts that are told one by one


async def handle_context(context: ActionContext) -> ActionResult:
    """/context."""
    return reply_text(
        "\n".join(format_prompt_breakdown(await context.deps.load_prompt_breakdown(context.tx, context.lane)))
    )


def format_prompt_breakdown(breakdown: PromptBreakdown) -> Iterator[str]:
    """The parts of the next prompt, beside what the server counted for the last one."""
    yield "My next prompt, tokens estimated:"
    for label, tokens in breakdown.parts[:MAX_LISTED_PARTS]:
        yield f"{label}: {abbreviate_count(tokens)}"
    if more := breakdown.parts[MAX_LISTED_PARTS:]:
        yield f"{len(more)} more: {abbreviate_count(sum(tokens for _, tokens in more))}"
    yield f"Together: {abbreviate_count(breakdown.total_tokens)} of {abbreviate_count(breakdown.prompt_budget)}, and what you write"
    yield f"Last time the server counted: {_format_last(breakdown)}"
    if breakdown.left_out_turns:
        if breakdown.left_out_turns == 1:
            turns = "1 turn has"
        else:
            turns = f"{breakdown.left_out_turns} turns have"
        yield f"{turns} left the prompt; I can look them up."


def _format_last(breakdown: PromptBreakdown) -> str:
    if breakdown.last_prompt_tokens is None:
        return "unknown"
    return f"{abbreviate_count(breakdown.last_prompt_tokens)}, {'cached unknown' if breakdown.last_cached_tokens is None else _format_cached(breakdown.last_cached_tokens)}"


def _format_cached(tokens: int) -> str:
    if tokens:
        return f"{abbreviate_count(tokens)} of it cached"
    return "nothing of it cached"
