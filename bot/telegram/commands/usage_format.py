"""Formats what turns took in short lines for a phone: sums, rankings, and one turn in detail. Pure.

Canvases are estimates and labelled so. Unknown is shown as unknown, and a sum with unknown parts as "at
least". There is no rate: seconds and counts say enough.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from bot.db.usage.spending import (
    CallSpending,
    NewestTurn,
    RankedSpender,
    SpendingOverview,
    SpendingSums,
    TurnSpending,
)
from bot.db.usage.thinking_sums import ThinkingSums
from bot.domain import EndpointRole
from bot.translations.translator import Translator, translatable
from bot.usage.tables import EMPTY_CELL, INTERVAL_NAMES, UNKNOWN
from bot.usage.thinking_report import count_endings

MAX_LINE_CHARS = 35  # a phone shows a line of this length without wrapping it
MAX_LISTED_CALLS = 20  # further calls of a turn are only counted
MAX_LISTED_TOOLS = 8
MIN_SHOWN_SECONDS = 0.05
_UNKNOWN_REASON = "Unknown: the server sent no count"

# Why a call was made that would not have been needed, as it is stored.
_RETRY_REASONS = {
    "away": "no answer came before",
    "blind": "the model cannot see images",
    "brake": "it thought too long",
    "cut": "the reply before was cut",
    "empty": "the reply before was empty",
    "failing": "calls kept failing",
    "fallback": "goes on at the second endpoint",
    "main": "goes on at the first endpoint",
    "more": "the answer goes on",
    "refused": "the request was refused before",
    "restart": "the gateway was restarted",
    "silent": "two replies were empty",
    "yielded": "it had given way to your message",
}
_ENDPOINT_LABELS: dict[EndpointRole, str] = {"main": "the first", "fallback": "the second"}
_OUTCOME_LABELS = {
    "ok": "",
    "cut": ", cut",
    "cancelled": ", stopped",
    "failed": ", failed",
    None: ", not ended",
}


def format_summary(last: NewestTurn | None, today: SpendingSums, month: SpendingSums) -> str:
    """Format at most five lines, each under 36 characters; `month` is the last 30 days."""
    if last is None and not month.turns:
        return "Nothing yet. Ask me something."
    lines = [] if last is None else _format_last_turn(last)
    lines += [_format_sums("Today", today), _format_sums("30 d", month)]
    if any(UNKNOWN in line for line in lines):
        lines.append(_UNKNOWN_REASON)
    return "\n".join(lines)


def _format_last_turn(last: NewestTurn) -> list[str]:
    """Format one line or two; of a turn that was stopped before anything was counted nothing is unknown."""
    if not last.was_stopped:
        return [_format_sums("Last", last.spending), _format_tokens(last.spending)]
    line = f"Last: stopped, {format_seconds(last.spending.seconds)}"
    if last.spending.output_tokens is None:
        return [line]
    return [line, _format_tokens(last.spending)]


def format_answers(
    translate: Translator, last: NewestTurn | None, today: SpendingSums, month: SpendingSums
) -> str:
    """Format for members, in answers and seconds; `month` is the last 30 days."""
    if last is None and not month.turns:
        return translate("Nothing yet. Ask me something.")
    lines = []
    if last is not None:
        text = translatable("Last answer: {time}")
        if last.was_stopped:
            text = translatable("Last answer: stopped after {time}")
        lines.append(translate(text, time=format_seconds(last.spending.seconds)))
    headings = ((translate("Today:"), today), (translate("Last 30 days:"), month))
    for heading, sums in headings:
        count = translate.plural("{count} answer", "{count} answers", sums.turns)
        lines.append(f"{heading} {count}, {format_seconds(sums.seconds)}")
    return "\n".join(lines)


def format_thinking(all_sums: Sequence[ThinkingSums]) -> list[str]:
    """Format what thinking cost in 30 days, and how many turns got an answer with and without it.

    At most five lines, each under 36 characters; none if no turn thought.
    """
    with_thinking = next((sums for sums in all_sums if sums.thinking), None)
    if with_thinking is None:
        return []
    without = [sums for sums in all_sums if not sums.thinking]
    turns = f"{abbreviate_count(with_thinking.turns)} of {_format_total_turns(all_sums)} turns"
    seconds = sum(sums.seconds for sums in all_sums)
    shares = ", without ".join(map(_format_answered_share, ([with_thinking], without)))
    lines = [
        f"Thinking, 30 d: {turns}",
        f"    {_format_known_canvases([with_thinking])} of {_format_known_canvases(all_sums)} canvases est.",
        f"    {format_seconds(with_thinking.seconds)} of {format_seconds(seconds)}",
        f"    answered {shares}",
    ]
    replaced = [str(sum(sums.replaced for sums in group)) for group in ([with_thinking], without)]
    if any(sums.replaced for sums in all_sums):
        lines.append(f"    asked again {', without '.join(replaced)}")
    return lines


def _format_total_turns(all_sums: Iterable[ThinkingSums]) -> str:
    return abbreviate_count(sum(sums.turns for sums in all_sums))


def _format_known_canvases(all_sums: Sequence[ThinkingSums]) -> str:
    canvases = abbreviate_count(sum(sums.canvases for sums in all_sums))
    if not any(sums.counted for sums in all_sums) and any(sums.calls for sums in all_sums):
        return "?"
    if any(sums.counted < sums.calls or sums.partial for sums in all_sums):
        return f"≥{canvases}"
    return canvases


def _format_answered_share(all_sums: Sequence[ThinkingSums]) -> str:
    """The share of the turns that ran and have ended."""
    endings = [count_endings(sums) for sums in all_sums]
    ended = sum(counts.answered + counts.cut + counts.stopped + counts.failed for counts in endings)
    if not ended:
        return EMPTY_CELL
    return f"{100 * sum(counts.answered for counts in endings) // ended} %"


def format_ranking(today: SpendingSums, month: SpendingOverview) -> str:
    """Format what everybody took, and who took most in 30 days, in lines under 36 characters."""
    if not month.total.turns:
        return "Nothing yet in the last 30 days."
    lines = ["Everybody:", _format_sums("Today", today), _format_sums("30 d", month.total)]
    for heading, ranked in (
        ("People, canvases in 30 d:", month.people),
        ("Chats, canvases in 30 d:", month.chats),
    ):
        lines += [heading, *(_format_rank(number, spender) for number, spender in enumerate(ranked, start=1))]
    return "\n".join(lines)


def _format_rank(number: int, spender: RankedSpender) -> str:
    name = " ".join(spender.name.split())
    spending = spender.spending
    prefix = f"{number}. "
    suffix = f": {_format_count(spending.canvases, spending)}, {format_seconds(spending.seconds)}"
    name_limit = MAX_LINE_CHARS - len(prefix) - len(suffix)
    if len(name) > name_limit:
        name = f"{name[: name_limit - 1]}…"
    return f"{prefix}{name}{suffix}"


def _format_sums(label: str, sums: SpendingSums) -> str:
    if not sums.turns:
        return f"{label}: nothing yet"
    count = _format_count(sums.canvases, sums)
    if count == UNKNOWN:
        canvases = "canvases unknown"
    else:
        canvases = f"{count} {_canvas_noun(sums.canvases)} est."
    return f"{label}: {canvases}, {format_seconds(sums.seconds)}"


def _canvas_noun(count: int | None) -> str:
    if count == 1:
        return "canvas"
    return "canvases"


def _format_tokens(sums: SpendingSums) -> str:
    tokens_in = _format_count(sums.input_tokens, sums)
    tokens_out = _format_count(sums.output_tokens, sums)
    return f"Tokens: {tokens_in} in, {tokens_out} out"


def _format_count(number: int | None, sums: SpendingSums) -> str:
    if number is None and sums.calls:
        return UNKNOWN
    if number is None:
        return "0"
    if sums.is_complete:
        return abbreviate_count(number)
    return f"≥{abbreviate_count(number)}"


def format_details(turn: TurnSpending) -> str:
    """Format the details of an ended turn: thinking and why, tools, each model call, the model."""
    calls = [call for call in turn.calls if call.purpose != "decision"]
    lines = [
        f"Turn {turn.id}: {format_seconds(turn.seconds)}",
        f"Thinking: {_format_on_off(turn.thinking)}",
        f"Why: {turn.thinking_why or 'unknown'}",
        *_format_tools(turn.tools),
    ]
    lines += islice(_format_changes(turn.thinking, calls), MAX_LISTED_CALLS)
    for call in turn.calls:
        if call.purpose == "decision":
            lines += _format_decision_read(call)
    lines.append("Model calls, canvases estimated:" if calls else "Model calls: none")
    for number, call in enumerate(calls[:MAX_LISTED_CALLS], start=1):
        lines += _format_call(number, call)
    if len(calls) > MAX_LISTED_CALLS:
        lines.append(f"… and {len(calls) - MAX_LISTED_CALLS} more calls")
    return "\n".join([*lines, *_format_cached(calls), *_format_breakdown(turn), *_format_models(turn, calls)])


def _format_tools(names: Sequence[str]) -> Iterator[str]:
    """Yield the line of the tools that were called, if any were; of many, the last are only counted."""
    if names:
        listed = ", ".join(names[:MAX_LISTED_TOOLS])
        left_out = len(names) - MAX_LISTED_TOOLS
        if left_out > 0:
            listed += f" and {left_out} more"
        yield f"Tools: {listed}"


def _format_on_off(thinking: bool) -> str:
    if thinking:
        return "on"
    return "off"


def _format_changes(thinking: bool, calls: Iterable[CallSpending]) -> Iterator[str]:
    """Yield where thinking was switched, and where a call was made again, with the reason."""
    for number, call in enumerate(calls, start=1):
        changes = []
        if call.thinking != thinking:
            changes.append(f"thinking {_format_on_off(call.thinking)}")
        if call.again:
            changes.append(_RETRY_REASONS.get(call.again, call.again))
        if changes:
            yield f"Call {number}: {', '.join(changes)}"
        thinking = call.thinking


def _format_decision_read(call: CallSpending) -> tuple[str, str]:
    """Format the call that asked the endpoint in one step whether to think."""
    return f"Decision read: {_format_duration(call)}", f"    {_format_input(call)}"


def _format_call(number: int, call: CallSpending) -> tuple[str, str]:
    if call.canvases is None:
        canvases = "canvases unknown"
    else:
        canvases = f"{call.canvases} {_canvas_noun(call.canvases)}"
    details = _format_input(call)
    if call.prompt_tokens is not None:
        details += f", {_format_cached_tokens(call.cached_tokens)}"
    if call.waited and call.waited >= 0.1:
        details += f", waited {format_seconds(call.waited)}"
    return f"{number}. {canvases}, {_format_duration(call)}", f"    {details}"


def _format_input(call: CallSpending) -> str:
    if call.prompt_tokens is None:
        return "tokens unknown"
    return f"{abbreviate_count(call.prompt_tokens)} in"


def _format_cached_tokens(tokens: int | None) -> str:
    if tokens is None:
        return "cached unknown"
    return f"{abbreviate_count(tokens)} cached"


def _format_duration(call: CallSpending) -> str:
    ending = _OUTCOME_LABELS[call.outcome]
    if call.seconds is None:
        return f"time unknown{ending}"
    return f"{format_seconds(call.seconds)}{ending}"


def _format_cached(calls: Iterable[CallSpending]) -> Iterator[str]:
    """Yield how much of the input did not have to be computed, and of how many calls that is known."""
    calls = list(calls)
    reported = [call for call in calls if call.cached_tokens is not None and call.prompt_tokens is not None]
    prompt_tokens = sum(call.prompt_tokens or 0 for call in reported)
    cached_tokens = sum(call.cached_tokens or 0 for call in reported)
    if prompt_tokens:
        yield f"Cached: {100 * cached_tokens / prompt_tokens:.0f} % of the input"
        if len(reported) < len(calls):
            yield f"    known of {len(reported)} of {len(calls)} calls"


def _format_breakdown(turn: TurnSpending) -> Iterator[str]:
    """Yield the seconds by what they went to, those long enough to be noticed."""
    if not turn.account:
        return
    yield f"Where {format_seconds(turn.account['whole'])} went:"
    for kind, seconds in turn.account.items():
        if kind != "whole" and seconds >= MIN_SHOWN_SECONDS:
            yield f"    {format_seconds(seconds)} {INTERVAL_NAMES[kind]}"


def _format_models(turn: TurnSpending, calls: Iterable[CallSpending]) -> Iterator[str]:
    """Yield the models in the order they were asked, and the endpoint if there are two."""
    names = dict.fromkeys(call.model or "unknown" for call in calls)
    if names:
        yield f"Model: {', then '.join(names)}"
    if turn.endpoint_why is not None:
        yield f"Endpoint: {_ENDPOINT_LABELS[turn.endpoint]}, {turn.endpoint_why}"


def abbreviate_count(number: int) -> str:
    """Shorten a count to four characters: 999, 1.2k, 12k. Rounded down, so that "at least" stays true."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= 10 * size:
            return f"{number // size}{suffix}"
        if number >= size:
            return f"{number * 10 // size / 10}{suffix}"
    return str(number)


def format_seconds(seconds: float) -> str:
    """Format a time as precisely as it matters: 6.4 s, 100 s, 21 min, 2 h."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 999.5:
        return f"{seconds:.0f} s"
    if seconds < 5970:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
