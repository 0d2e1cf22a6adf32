"""/context: what the next prompt consists of, in short lines for a phone. Estimates are labelled so."""

from collections.abc import Iterator

from bot.chat.actions import ActionContext, ActionResult, reply_text
from bot.translations.formats import abbreviate_number
from bot.translations.translator import Translator
from bot.turns import PERSONA_LABEL, TOOL_LABEL, PromptBreakdown

MAX_LISTED_PARTS = 40  # further parts are summed


async def handle_context(context: ActionContext) -> ActionResult:
    """/context."""
    breakdown = await context.deps.turns.prompt_breakdowns.load(context.tx, context.lane)
    lines = format_prompt_breakdown(context.translate, breakdown, for_admins=context.role == "admin")
    return reply_text("\n".join(lines))


def format_prompt_breakdown(
    translate: Translator, breakdown: PromptBreakdown, *, for_admins: bool
) -> Iterator[str]:
    """Yield the parts of the next prompt, and for admins what the server counted for the last one."""
    yield translate("What I see with your next message, in tokens, which are pieces of words (estimated):")
    for label, tokens in breakdown.parts[:MAX_LISTED_PARTS]:
        yield f"{_format_label(translate, label)}: {abbreviate_number(translate, tokens)}"
    if more := breakdown.parts[MAX_LISTED_PARTS:]:
        more_tokens = abbreviate_number(translate, sum(tokens for _, tokens in more))
        yield translate("{count} more: {tokens}", count=len(more), tokens=more_tokens)
    yield translate(
        "Total: {total} of {budget}, plus what you write",
        total=abbreviate_number(translate, breakdown.total_tokens),
        budget=abbreviate_number(translate, breakdown.prompt_budget),
    )
    if for_admins:
        yield translate("The server's last count: {counts}", counts=_format_last(translate, breakdown))
    if breakdown.left_out_turns:
        yield translate.plural(
            "I no longer see 1 earlier answer, but I can look it up.",
            "I no longer see {count} earlier answers, but I can look them up.",
            breakdown.left_out_turns,
        )


def _format_label(translate: Translator, label: str) -> str:
    if label.startswith(TOOL_LABEL):
        return translate("tool {name}", name=label.removeprefix(TOOL_LABEL))
    if label.startswith(PERSONA_LABEL):
        return translate("persona {name}", name=label.removeprefix(PERSONA_LABEL))
    return translate(label)


def _format_last(translate: Translator, breakdown: PromptBreakdown) -> str:
    if breakdown.last_prompt_tokens is None:
        return translate("unknown")
    tokens = abbreviate_number(translate, breakdown.last_prompt_tokens)
    cached = breakdown.last_cached_tokens
    if cached is None:
        return translate("{tokens}; cached: unknown", tokens=tokens)
    if cached:
        return translate(
            "{tokens}, {cached} of it cached", tokens=tokens, cached=abbreviate_number(translate, cached)
        )
    return translate("{tokens}, none of it cached", tokens=tokens)
