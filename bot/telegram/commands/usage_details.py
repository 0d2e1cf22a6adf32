"""One turn in its details, in short lines for a phone: thinking and why, each model call, the model. Pure.

Canvases are estimates and labelled so; what the server did not tell is said to be unknown.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from bot.db.usage.spending import CallSpending, TurnSpending
from bot.domain import EndpointRole
from bot.telegram.commands.usage_summary import abbreviate_count, format_seconds
from bot.usage.tables import INTERVAL_NAMES

MAX_LISTED_CALLS = 20  # calls that are told one by one
MIN_SHOWN_SECONDS = 0.05  # seconds that are told

# Why a call was made that would not have been needed, as it is written down.
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
    "silent": "two replies were empty",
}
_ENDPOINT_LABELS: dict[EndpointRole, str] = {"main": "the first", "fallback": "the second"}
_OUTCOME_LABELS = {
    "ok": "",
    "cut": ", cut",
    "cancelled": ", stopped",
    "failed": ", failed",
    None: ", not ended",
}


def format_details(turn: TurnSpending) -> str:
    """The details of an ended turn."""
    calls = [call for call in turn.calls if call.purpose != "decision"]
    told = [
        f"Turn {turn.id}: {format_seconds(turn.seconds)}",
        f"Thinking: {_format_on_off(turn.thinking)}",
        f"Why: {turn.thinking_why or 'unknown'}",
    ]
    told += islice(_format_changes(turn.thinking, calls), MAX_LISTED_CALLS)
    for call in turn.calls:
        told += _format_decision_read(call) if call.purpose == "decision" else ()
    told.append("Model calls, canvases estimated:" if calls else "Model calls: none")
    for number, call in enumerate(calls[:MAX_LISTED_CALLS], start=1):
        told += _format_call(number, call)
    if len(calls) > MAX_LISTED_CALLS:
        told.append(f"… and {len(calls) - MAX_LISTED_CALLS} more calls")
    return "\n".join([*told, *_format_cached(calls), *_format_breakdown(turn), *_format_models(turn, calls)])


def _format_on_off(thinking: bool) -> str:
    if thinking:
        return "on"
    return "off"


def _format_changes(thinking: bool, calls: Iterable[CallSpending]) -> Iterator[str]:
    """Where thinking was switched, and where a call was made again, with the reason."""
    for number, call in enumerate(calls, start=1):
        if call.thinking != thinking:
            switch = f"thinking {_format_on_off(call.thinking)}"
        else:
            switch = ""
        why = _RETRY_REASONS.get(call.again, call.again) if call.again else ""
        if switch or why:
            yield f"Call {number}: {', '.join(filter(None, (switch, why)))}"
        thinking = call.thinking


def _format_decision_read(call: CallSpending) -> tuple[str, str]:
    """The endpoint was asked in one step whether to think."""
    if call.prompt_tokens is None:
        tokens = "tokens unknown"
    else:
        tokens = f"{abbreviate_count(call.prompt_tokens)} in"
    return f"Decision read: {_format_duration(call)}", f"    {tokens}"


def _format_call(number: int, call: CallSpending) -> tuple[str, str]:
    unit = "canvas" if call.canvases == 1 else "canvases"
    if call.canvases is None:
        canvases = "canvases unknown"
    else:
        canvases = f"{call.canvases} {unit}"
    if call.waited and call.waited >= 0.1:
        waited = f", waited {format_seconds(call.waited)}"
    else:
        waited = ""
    if call.cached_tokens is None:
        cached = "cached unknown"
    else:
        cached = f"{abbreviate_count(call.cached_tokens)} cached"
    if call.prompt_tokens is None:
        tokens = "tokens unknown"
    else:
        tokens = f"{abbreviate_count(call.prompt_tokens)} in, {cached}"
    return f"{number}. {canvases}, {_format_duration(call)}", f"    {tokens}{waited}"


def _format_duration(call: CallSpending) -> str:
    return ("time unknown" if call.seconds is None else format_seconds(call.seconds)) + _OUTCOME_LABELS[
        call.outcome
    ]


def _format_cached(calls: Iterable[CallSpending]) -> Iterator[str]:
    """How much of the input had not to be computed, where the server tells."""
    told = [(call.cached_tokens, call.prompt_tokens) for call in calls if call.cached_tokens is not None]
    whole = sum(prompt or 0 for _, prompt in told)
    if whole:
        yield f"Cached: {100 * sum(cached or 0 for cached, _ in told) / whole:.0f} % of the input"


def _format_breakdown(turn: TurnSpending) -> Iterator[str]:
    """The seconds by what they went to, those that can be felt."""
    if not turn.account:
        return
    yield f"Where {format_seconds(turn.account['whole'])} went:"
    for kind, took in turn.account.items():
        if kind != "whole" and took >= MIN_SHOWN_SECONDS:
            yield f"    {format_seconds(took)} {INTERVAL_NAMES[kind]}"


def _format_models(turn: TurnSpending, calls: Iterable[CallSpending]) -> Iterator[str]:
    """The models, the first asked first, and the endpoint if there are two."""
    names = dict.fromkeys(call.model or "unknown" for call in calls)
    if names:
        yield f"Model: {', then '.join(names)}"
    if turn.endpoint_why is not None:
        yield f"Endpoint: {_ENDPOINT_LABELS[turn.endpoint]}, {turn.endpoint_why}"
