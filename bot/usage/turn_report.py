"""One turn told step by step: what was decided, what happened when, where its seconds went. Pure.

Texts stand only where they were asked for, and it is said that they do.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict

from bot.db.usage.turn_steps import CallStep, PartStep, ToolStep, TurnSteps
from bot.domain import CANVAS_TOKENS
from bot.usage.plain_text import escape_for_terminal
from bot.usage.report import format_utc
from bot.usage.tables import INTERVAL_NAMES, format_seconds

TEXTS_SHOWN_NOTICE = (
    "Texts are shown: what people, the model and tools wrote stands below. That it was read stands in"
    " `canvasgram report audit`."
)


def render_lines(turn: TurnSteps) -> Iterator[str]:
    """The turn for a terminal."""
    yield f"Turn {turn.id} in chat {escape_for_terminal(turn.chat)}, of user {turn.user}: {escape_for_terminal(turn.ending or turn.state)}"
    yield f"Thinking: {'on' if turn.thinking else 'off'}, for: {escape_for_terminal(turn.thinking_why) or 'unknown'}"
    if turn.endpoint_why is not None:
        which = "first" if turn.endpoint == "main" else "second"
        yield f"Endpoint: the {which}, for: {escape_for_terminal(turn.endpoint_why)}"
    yield ""
    yield f"{format_utc(turn.received_at)} UTC, and seconds since:"
    for at, _, line in sorted(_turn_events(turn), key=lambda one: one[:2]):
        yield f"{at - turn.received_at:10.3f}  {line}"
    yield ""
    yield from _breakdown_lines(turn)
    for said in turn.said:
        yield ""
        yield f"{escape_for_terminal(said.role)}:"
        yield from (f"    {escape_for_terminal(line)}" for line in said.text.splitlines())


def render_json(turn: TurnSteps) -> str:
    """The same for machines, in plain ASCII."""
    return json.dumps(asdict(turn), indent=1)


ANSWER_LABELS = {
    "once": "allowed once",
    "here": "allowed for a while",
    "denied": "denied",
    "expired": "nobody answered in time",
    "stopped": "stopped before an answer",
}
"""What came of a question, in words."""

TurnEvent = tuple[float, int, str]  # epoch seconds, the order of what happens at once, what happened


def _turn_events(turn: TurnSteps) -> Iterator[TurnEvent]:
    yield turn.received_at, 0, "received from Telegram"
    if turn.taken_at is not None:
        yield (
            turn.taken_at,
            1,
            f"taken up, after {format_seconds(turn.taken_at - turn.received_at)} s of waiting",
        )
    yield turn.began_at, 2, "the turn begins"
    for number, call in enumerate(turn.calls, start=1):
        yield from ((at, 3, f"call {number}: {line}") for at, line in _call_events(call))
    for tool in turn.tools:
        yield from ((at, 4, line) for at, line in _tool_events(tool))
    if turn.ended_at is not None:
        yield turn.ended_at, 5, f"the turn ends: {escape_for_terminal(turn.ending or turn.state)}"
    for number, part in enumerate(turn.parts, start=1):
        yield from ((at, 6, f"message {number} {line}") for at, line in _part_events(part))


def _part_events(part: PartStep) -> Iterator[tuple[float, str]]:
    if part.sent_at is not None:
        yield part.sent_at, "stands in the chat"
    if part.done_at is not None:
        yield part.done_at, "has its final words"
    elif part.state != "done":
        yield part.made_at, f"is stored; its delivery: {escape_for_terminal(part.state)}"


def _call_events(call: CallStep) -> Iterator[tuple[float, str]]:
    why = f", again: {escape_for_terminal(call.again)}" if call.again else ""
    thinking = "thinking" if call.thinking else "no thinking"
    yield (
        call.created_at,
        f"{escape_for_terminal(call.purpose)} asked of {escape_for_terminal(call.model)}, {thinking}{why}",
    )
    if call.seat_at is not None:
        yield call.seat_at, f"has a seat, after {format_seconds(call.seat_at - call.created_at)} s of waiting"
    if call.first_block_at is not None:
        since = call.created_at if call.seat_at is None else call.seat_at
        yield (
            call.first_block_at,
            f"first block, {format_seconds(call.first_block_at - since)} s after its seat",
        )
    if call.ended_at is None:
        yield call.created_at, "has not ended"
        return
    failed = f" ({escape_for_terminal(call.error)})" if call.error else ""
    reason = escape_for_terminal(call.finish_reason or "unknown")
    yield (
        call.ended_at,
        f"{escape_for_terminal(call.outcome or 'unknown')}{failed}, finish reason {reason}; {_format_tokens(call)}",
    )
    if call.server_ms:
        yield call.ended_at, f"the server's own times: {_format_server_times(call.server_ms)}"


_SERVER_TIME_FIELDS = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")


def _format_server_times(server_ms: str) -> str:
    """Its times without its rates, a mean by token included: those mislead where text comes by the canvas."""
    told = json.loads(server_ms)
    times = {name.removesuffix("_ms"): value for name, value in told.items() if name in _SERVER_TIME_FIELDS}
    return ", ".join(
        f"{escape_for_terminal(name.replace('_', ' '))} {value:.1f} ms" for name, value in times.items()
    )


def _format_tokens(call: CallStep) -> str:
    if call.prompt_tokens is None and call.completion_tokens is None:
        return f"tokens unknown: {escape_for_terminal(call.usage_missing or 'the server did not tell')}"
    least = "≥ " if call.usage_partial else ""
    told = {"in": call.prompt_tokens, "cached": call.cached_tokens}
    inputs = ", ".join(f"{_format_count(number)} {name}" for name, number in told.items())
    output = _format_count(call.completion_tokens)
    reasoning = _format_count(call.reasoning_tokens)
    if call.purpose == "decision":
        return f"{inputs}, {output} out"
    if call.completion_tokens is None:
        canvases = "canvases unknown"
    else:
        canvases = _format_canvases(call.completion_tokens, least)
    return f"{inputs}, {least}{output} out, {least}{reasoning} of them thought, {canvases}"


def _format_canvases(tokens: int, prefix: str) -> str:
    count = -(-tokens // CANVAS_TOKENS)
    return f"{prefix}{count} canvas{'' if count == 1 else 'es'} (estimated)"


def _format_count(number: int | None) -> str:
    if number is None:
        return "unknown"
    return f"{number:,}"


def _tool_events(tool: ToolStep) -> Iterator[tuple[float, str]]:
    name = escape_for_terminal(tool.name)
    if tool.asked_at is not None:
        yield tool.asked_at, f"tool {name}: a person is asked"
    if tool.answered_at is not None:
        yield (
            tool.answered_at,
            f"tool {name}: {ANSWER_LABELS.get(tool.answer or '', escape_for_terminal(tool.answer or ''))}",
        )
    if tool.began_at is not None:
        if tool.arguments is None:
            arguments = ""
        else:
            arguments = f" {escape_for_terminal(tool.arguments)}"
        yield tool.began_at, f"tool {name} begins{arguments}"
    if tool.ended_at is not None:
        if tool.began_at is None:
            took = ""
        else:
            took = f" after {format_seconds(tool.ended_at - tool.began_at)} s"
        result = "" if tool.result is None else f": {escape_for_terminal(tool.result)}"
        yield tool.ended_at, f"tool {name}: {escape_for_terminal(tool.outcome or 'unknown')}{took}{result}"


def _breakdown_lines(turn: TurnSteps) -> Iterator[str]:
    if not turn.account:
        yield "Where the seconds went: unknown, for the turn has no account (yet)."
        return
    yield "Where the seconds went:"
    for kind, value in turn.account.items():
        if value or kind == "whole":
            yield f"{value:10.3f}  {INTERVAL_NAMES[kind]}"
