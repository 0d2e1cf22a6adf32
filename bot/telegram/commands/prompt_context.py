"""/context: what the next prompt is made of, in short lines for a phone. What is estimated is said to be."""

from collections.abc import Iterator

from bot.telegram.actions import Answer, Call, say
from bot.telegram.commands.usage_summary import short
from bot.turns.context_window import Composition

MOST = 40  # parts that are told one by one


async def show(call: Call) -> Answer:
    """/context."""
    return say("\n".join(lines(await call.reach.composition(call.tx, call.lane))))


def lines(made: Composition) -> Iterator[str]:
    """The parts of the next prompt, beside what the server counted for the last one."""
    yield "My next prompt, tokens estimated:"
    for label, tokens in made.parts[:MOST]:
        yield f"{label}: {short(tokens)}"
    if more := made.parts[MOST:]:
        yield f"{len(more)} more: {short(sum(tokens for _, tokens in more))}"
    yield f"Together: {short(made.total)} of {short(made.budget)}, and what you write"
    yield f"Last time the server counted: {_last(made)}"
    if made.left_out_turns:
        if made.left_out_turns == 1:
            turns = "1 turn has"
        else:
            turns = f"{made.left_out_turns} turns have"
        yield f"{turns} left the prompt; I can look them up."


def _last(made: Composition) -> str:
    if made.last_prompt is None:
        return "unknown"
    return f"{short(made.last_prompt)}, {'cached unknown' if made.last_cached is None else _cached(made.last_cached)}"


def _cached(tokens: int) -> str:
    if tokens:
        return f"{short(tokens)} of it cached"
    return "nothing of it cached"
