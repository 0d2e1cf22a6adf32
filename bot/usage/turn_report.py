"""`canvasgram turn`: what was decided in a turn, what happened when, where its seconds went. Pure.

Texts are shown only where they were asked for, and a line says so.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise

from bot.canvases import CANVASES, OutputUnit, costs_canvases
from bot.db.usage.speeches import Speech
from bot.db.usage.turn_steps import CallStep, PartStep, ToolStep, TurnSteps, TurnTakeover
from bot.tables import Line, TextTable
from bot.usage.figures import UNKNOWN, format_canvases, format_count, format_seconds
from bot.usage.intervals import list_intervals, name_interval
from bot.usage.local_times import format_utc
from bot.usage.plain_text import escape_for_terminal
from bot.usage.refusals import describe_tool_outcome
from bot.usage.report import format_person

TEXTS_SHOWN_NOTICE = (
    "Texts are shown: what people, the model and tools wrote stands below. That it was read stands in"
    " `canvasgram report audit`."
)
ANSWER_LABELS = {
    "once": "allowed once",
    "here": "allowed for a while",
    "given": "answered",
    "denied": "denied",
    "expired": "nobody answered in time",
    "stopped": "stopped before an answer",
}
"""How an approval was answered."""
_SERVER_TIME_FIELDS = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")

TurnEvent = tuple[float, int, str]  # epoch seconds, the order of simultaneous events, what happened


def render_lines(turn: TurnSteps, names: Mapping[int, str], *, unit: OutputUnit = CANVASES) -> Iterator[Line]:
    """The turn for a terminal; only of the unit CANVASES are some named."""
    ending = turn.ending or turn.state
    person = f"user {turn.user}"
    if turn.user in names:
        person = format_person(str(turn.user), names)
    yield f"Turn {turn.id} in chat {turn.chat}, of {person}: {ending}"
    thinking = "on" if turn.thinking else "off"
    yield f"Thinking: {thinking}, for: {turn.thinking_why or UNKNOWN}"
    if turn.endpoint_why is not None:
        endpoint = "first" if turn.endpoint == "main" else "second"
        yield f"Endpoint: the {endpoint}, for: {turn.endpoint_why}"
    yield ""
    yield f"{format_utc(turn.received_at)} UTC, and seconds since:"
    events = sorted(_turn_events(turn, unit.has_canvases), key=lambda event: event[:2])
    yield _build_table([(time - turn.received_at, text) for time, _, text in events])
    yield ""
    yield from _breakdown_lines(turn)
    for utterance in turn.said:
        yield ""
        yield f"{utterance.role}:"
        yield TextTable("", (), [("  ", line) for line in utterance.text.splitlines()], text_columns=2)


def render_json(turn: TurnSteps) -> str:
    """The same for machines, in plain ASCII."""
    return json.dumps(asdict(turn), indent=1)


def _turn_events(turn: TurnSteps, has_canvases: bool) -> Iterator[TurnEvent]:
    yield turn.received_at, 0, "received from Telegram"
    if turn.taken_at is not None:
        waited = format_seconds(turn.taken_at - turn.received_at)
        yield turn.taken_at, 1, f"taken up, after {waited} s of waiting"
    yield turn.began_at, 2, "the turn begins"
    for takeover in turn.takeovers:
        yield takeover.taken_at, 2, describe_takeover(takeover)
    for number, call in enumerate(turn.calls, start=1):
        yield from ((time, 3, f"call {number}: {text}") for time, text in _call_events(call, has_canvases))
    for tool in turn.tools:
        yield from ((time, 4, f"tool {tool.name}{text}") for time, text in _tool_events(tool))
    if turn.ended_at is not None:
        yield turn.ended_at, 5, f"the turn ends: {turn.ending or turn.state}"
    for number, part in enumerate(turn.parts, start=1):
        yield from ((time, 6, f"message {number} {text}") for time, text in _part_events(part))
    if turn.speech is not None:
        yield from ((time, 7, f"voice: {text}") for time, text in _speech_events(turn.speech))


def _speech_events(speech: Speech) -> Iterator[tuple[float, str]]:
    waited = format_seconds(speech.began_at - speech.wanted_at)
    yield speech.began_at, f"{speech.chars:,} characters are to be read out, after {waited} s of waiting"
    seconds = format_seconds(speech.ended_at - speech.began_at)
    ending = "read out" if speech.outcome == "ok" else "not read out, for the service failed"
    yield speech.ended_at, f"{ending}, in {seconds} s"


def describe_takeover(takeover: TurnTakeover) -> str:
    """Which gateway took the chat over from which, and how long nobody had it."""
    text = f"another gateway took over: {takeover.life} from {takeover.previous_life}"
    seconds = takeover.taken_at - takeover.left_at
    if seconds > 0:
        text += f", after {format_seconds(seconds)} s without one"
    return text


def _part_events(part: PartStep) -> Iterator[tuple[float, str]]:
    if part.sent_at is not None:
        yield part.sent_at, "stands in the chat"
    if part.done_at is not None:
        yield part.done_at, "has its final words"
    elif part.state != "done":
        yield part.made_at, f"is stored; its delivery: {part.state}"


def _call_events(call: CallStep, has_canvases: bool) -> Iterator[tuple[float, str]]:
    yield call.created_at, _describe_request(call)
    if prompt := describe_prompt(call):
        yield call.created_at, f"its prompt is made of {prompt}"
    if call.seat_at is not None:
        waited = format_seconds(call.seat_at - call.created_at)
        yield call.seat_at, f"has a seat, after {waited} s of waiting"
    if call.first_block_at is not None:
        seconds = format_seconds(call.first_block_at - (call.seat_at or call.created_at))
        yield call.first_block_at, f"first block, {seconds} s after its seat"
    if len(times := call.block_times) > 1:
        seconds = ", ".join(format_seconds(later - earlier) for earlier, later in pairwise(times))
        yield times[-1], f"block {len(times)} of {call.blocks}; seconds between the blocks: {seconds}"
    if call.ended_at is None:
        yield call.created_at, "has not ended"
        return
    yield call.ended_at, _describe_end(call, has_canvases)
    if call.server_ms:
        yield call.ended_at, f"the server's own times: {format_server_times(call.server_ms)}"


def _describe_request(call: CallStep) -> str:
    thinking = "thinking" if call.thinking else "no thinking"
    text = f"{call.purpose} asked of {call.model}, {thinking}"
    if call.again:
        text += f", again: {call.again}"
    return text


def describe_prompt(call: CallStep) -> str:
    """What the call's prompt is made of; empty where that is not stored."""
    characters = {
        "instructions": call.chars_system,
        "tools": call.chars_tools,
        "notes": call.chars_notes,
        "history": call.chars_history,
    }
    pieces = [f"{name} {count:,}" for name, count in characters.items() if count]
    text = f"{' + '.join(pieces)} characters" if pieces else ""
    if call.images:
        text += f"{' + ' if text else ''}{call.images} image{'s' if call.images > 1 else ''}"
    return text


def _describe_end(call: CallStep, has_canvases: bool) -> str:
    outcome = call.outcome or UNKNOWN
    if call.error:
        outcome += f" ({call.error})"
    reason = call.finish_reason or UNKNOWN
    return f"{outcome}, finish reason {reason}; {_format_tokens(call, has_canvases)}"


def format_server_times(server_ms: str) -> str:
    """The server's times without its rates, a mean per token included.

    Rates mislead where text comes by the canvas.
    """
    values = json.loads(server_ms)
    times = {name.removesuffix("_ms"): value for name, value in values.items() if name in _SERVER_TIME_FIELDS}
    return ", ".join(
        f"{escape_for_terminal(name.replace('_', ' '))} {value:.1f} ms" for name, value in times.items()
    )


def _format_tokens(call: CallStep, has_canvases: bool) -> str:
    if call.prompt_tokens is None and call.completion_tokens is None:
        return f"tokens unknown: {call.usage_missing or 'the server did not tell'}"
    inputs = f"{format_count(call.prompt_tokens)} in, {format_count(call.cached_tokens)} cached"
    is_complete = not call.usage_partial
    output = format_count(call.completion_tokens, is_complete=is_complete)
    if not costs_canvases(call.purpose):
        return f"{inputs}, {output} out"
    reasoning = format_count(call.reasoning_tokens, is_complete=is_complete)
    text = f"{inputs}, {output} out, {reasoning} of them thought"
    if not has_canvases:
        return text
    return f"{text}, {format_canvases(call.canvases, '' if is_complete else '≥ ')}"


def _tool_events(tool: ToolStep) -> Iterator[tuple[float, str]]:
    """What happened to a tool call and when; the texts follow the tool's name."""
    if tool.asked_at is not None:
        yield tool.asked_at, ": a person is asked"
    if tool.answered_at is not None:
        answer = tool.answer or ""
        yield tool.answered_at, f": {ANSWER_LABELS.get(answer, answer)}"
    if tool.began_at is not None:
        text = " begins"
        if tool.arguments is not None:
            text += f" {tool.arguments}"
        yield tool.began_at, text
    if tool.ended_at is not None:
        yield tool.ended_at, f": {_describe_tool_end(tool, tool.ended_at)}"


def _describe_tool_end(tool: ToolStep, ended_at: float) -> str:
    text = describe_tool_outcome(tool.outcome or UNKNOWN, tool.refusal)
    if tool.began_at is not None:
        text += f" after {format_seconds(ended_at - tool.began_at)} s"
    if tool.result is not None:
        text += f": {tool.result}"
    return text


def _build_table(rows: Iterable[tuple[float, str]]) -> TextTable:
    return TextTable("", (), [(f"{seconds:10.3f}", text) for seconds, text in rows], text_columns=2)


def _breakdown_lines(turn: TurnSteps) -> Iterator[Line]:
    if not turn.account:
        yield "Where the seconds went: unknown, for the turn has no account (yet)."
        return
    yield "Where the seconds went:"
    intervals = ((seconds, name_interval(kind)) for kind, seconds in list_intervals(turn.account))
    yield _build_table([(turn.account["whole"], "whole"), *intervals])
