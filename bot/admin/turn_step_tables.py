"""A turn's model calls, tool calls, messages and intervals as tables. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from bot.admin.components import TURNS_PATH, build_url, cut, format_duration, mark_ending
from bot.admin.data_table import CanvasColumn, Cell, DataTable, NumberColumn, TableColumn
from bot.admin.names import name_person
from bot.admin.table_view import build_count_cell, build_seconds_cell
from bot.canvases import costs_canvases
from bot.db.usage.turn_steps import CallStep, PartStep, ToolStep, TurnSteps
from bot.usage.figures import EMPTY_CELL, UNKNOWN, format_share
from bot.usage.intervals import INTERVAL_DESCRIPTIONS, INTERVAL_LABELS, list_intervals
from bot.usage.refusals import describe_tool_outcome
from bot.usage.turn_report import ANSWER_LABELS, describe_prompt, format_server_times

_CALL_COLUMNS = (
    NumberColumn("call", "Call"),
    TableColumn("ending", "Ending", style="ending"),
    NumberColumn("step", "Step"),
    NumberColumn("at", "At"),
    TableColumn("purpose", "Purpose", style="brief"),
    TableColumn("thinking", "Thinks", style="brief"),
    NumberColumn("seat_wait", "Seat wait"),
    NumberColumn("first_canvas", "First text"),
    NumberColumn("blocks", "Blocks"),
    NumberColumn("seconds", "With a seat"),
    NumberColumn("prompt", "Chars"),
    NumberColumn("input", "In"),
    NumberColumn("cached", "Cached"),
    NumberColumn("output", "Out"),
    NumberColumn("reasoning", "Thought"),
    CanvasColumn("canvases", "Canvases"),
    TableColumn("server", "The server's own times", is_shown=False),
)
_TOOL_COLUMNS = (
    NumberColumn("step", "Step"),
    TableColumn("tool", "Tool"),
    NumberColumn("at", "At"),
    TableColumn("asked", "A person was asked"),
    NumberColumn("seconds", "Took"),
    TableColumn("outcome", "Outcome"),
)
_PART_COLUMNS = (
    NumberColumn("message", "Message"),
    TableColumn("state", "State"),
    NumberColumn("at", "Stored at"),
    NumberColumn("sent", "Stood in the chat at"),
    NumberColumn("done", "Final at"),
)
_SPEECH_DESCRIPTION = "the answer is read out, beside the account: its text waits for no voice"
_INTERVAL_COLUMNS = (
    TableColumn("interval", "Interval", style="brief"),
    NumberColumn("seconds", "Seconds"),
    NumberColumn("share", "Share"),
    TableColumn("what", "What it is", style="prose"),
)


def build_tables(turn: TurnSteps, names: Mapping[int, str]) -> tuple[DataTable, ...]:
    """The intervals, the model calls, the tool calls and the messages."""
    calls = tuple(_build_call(number, call, turn) for number, call in enumerate(turn.calls, start=1))
    tools = tuple(_build_tool(tool, turn, names) for tool in turn.tools)
    parts = tuple(_build_part(number, part, turn) for number, part in enumerate(turn.parts, start=1))
    return (
        DataTable("intervals", "The intervals", _INTERVAL_COLUMNS, _list_intervals(turn), "Not known (yet)."),
        DataTable("calls", "Model calls", _CALL_COLUMNS, calls, "No model was called."),
        DataTable("tools", "Tool calls", _TOOL_COLUMNS, tools, "No tool was called."),
        DataTable("messages", "Messages of the answer", _PART_COLUMNS, parts, "None is stored."),
    )


def _list_intervals(turn: TurnSteps) -> tuple[tuple[Cell, ...], ...]:
    rows = [
        (
            Cell(kind, INTERVAL_LABELS[kind]),
            Cell(round(seconds, 3), f"{seconds:.3f}"),
            Cell(
                round(seconds / turn.account["whole"], 4),
                format_share(seconds, turn.account["whole"], decimals=0),
            ),
            Cell(INTERVAL_DESCRIPTIONS[kind]),
        )
        for kind, seconds in list_intervals(turn.account)
    ]
    if turn.speech is not None:
        spoken_seconds = build_seconds_cell(turn.speech.ended_at - turn.speech.began_at)
        rows.append((Cell("speech"), spoken_seconds, Cell(None, EMPTY_CELL), Cell(_SPEECH_DESCRIPTION)))
    return tuple(rows)


def _build_call(number: int, call: CallStep, turn: TurnSteps) -> tuple[Cell, ...]:
    purpose = f"{call.purpose}, again: {call.again}" if call.again else call.purpose
    begin = call.created_at if call.seat_at is None else call.seat_at
    first = None if call.first_block_at is None else call.first_block_at - begin
    is_complete = not call.usage_partial
    server_times = format_server_times(call.server_ms) if call.server_ms else None
    return (
        Cell(number),
        _build_ending_cell(call),
        Cell(call.step),
        _moment_cell(call.created_at, turn),
        Cell(cut(purpose)),
        Cell("on" if call.thinking else "off"),
        build_seconds_cell(call.waited),
        build_seconds_cell(first),
        Cell(call.blocks),
        replace(build_seconds_cell(call.seat_seconds), title=server_times),
        _build_prompt_cell(call),
        Cell(call.prompt_tokens),
        _cached_cell(call),
        build_count_cell(call.completion_tokens, is_complete=is_complete),
        build_count_cell(call.reasoning_tokens, is_complete=is_complete),
        _canvases_cell(call),
        Cell(server_times or ""),
    )


def _build_ending_cell(call: CallStep) -> Cell:
    """How a call ended in two words; why where a mouse rests, and in exports."""
    ending = cut(_describe_ending(call), 160)
    mark, style = mark_ending(call.outcome)
    words = ending
    if call.ended_at is not None or call.outcome is not None:
        words = cut(", ".join(filter(None, (call.outcome or UNKNOWN, call.finish_reason))), 24)
    return Cell(ending, f"{mark} {words}", title=ending, style=style)


def _build_prompt_cell(call: CallStep) -> Cell:
    """The characters of a prompt; of what it was made where a mouse rests, and in exports."""
    text = describe_prompt(call)
    parts = (call.chars_system, call.chars_tools, call.chars_notes, call.chars_history)
    if not text:
        return Cell(text, UNKNOWN)
    return Cell(text, f"{sum(part or 0 for part in parts):,}", title=text)


def _describe_ending(call: CallStep) -> str:
    if call.ended_at is None and call.outcome is None:
        return "has not ended, or was lost"
    text = f"{call.outcome or UNKNOWN}, finish reason {call.finish_reason or UNKNOWN}"
    reasons = [reason for reason in (call.error, call.usage_missing) if reason]
    return "; ".join([text, *reasons])


def _cached_cell(call: CallStep) -> Cell:
    if call.cached_tokens is None:
        return Cell(None)
    if not call.prompt_tokens:
        return Cell(call.cached_tokens)
    share = call.cached_tokens / call.prompt_tokens
    return Cell(call.cached_tokens, f"{call.cached_tokens:,} ({format_share(share, 1, decimals=0)})")


def _canvases_cell(call: CallStep) -> Cell:
    if not costs_canvases(call.purpose):
        return Cell(0, EMPTY_CELL)
    return build_count_cell(call.canvases, is_complete=not call.usage_partial)


def _build_tool(tool: ToolStep, turn: TurnSteps, names: Mapping[int, str]) -> tuple[Cell, ...]:
    began_at = tool.began_at if tool.began_at is not None else tool.asked_at
    seconds = None
    if tool.began_at is not None and tool.ended_at is not None:
        seconds = tool.ended_at - tool.began_at
    href = build_url(TURNS_PATH, {"period": "90d", "tool": tool.name})
    return (
        Cell(tool.step),
        Cell(cut(tool.name), href=href),
        _moment_cell(began_at, turn),
        Cell(_describe_question(tool, names)),
        build_seconds_cell(seconds),
        _build_outcome_cell(tool),
    )


def _build_outcome_cell(tool: ToolStep) -> Cell:
    if tool.outcome is None:
        return Cell(None, "none yet, or lost")
    text = cut(describe_tool_outcome(tool.outcome, tool.refusal))
    mark, style = mark_ending(tool.outcome)
    return Cell(text, f"{mark} {text}", style=style)


def _describe_question(tool: ToolStep, names: Mapping[int, str]) -> str:
    if tool.asked_at is None:
        return "no"
    if tool.answered_at is None:
        return "no answer yet"
    answer = ANSWER_LABELS.get(tool.answer or "", cut(tool.answer or UNKNOWN))
    if tool.answered_by is not None:
        answer = f"{answer} by {name_person(tool.answered_by, names)}"
    return f"{answer}, after {format_duration(tool.answered_at - tool.asked_at)}"


def _build_part(number: int, part: PartStep, turn: TurnSteps) -> tuple[Cell, ...]:
    return (
        Cell(number),
        Cell(cut(part.state)),
        _moment_cell(part.made_at, turn),
        _moment_cell(part.sent_at, turn),
        _moment_cell(part.done_at, turn),
    )


def _moment_cell(moment: float | None, turn: TurnSteps) -> Cell:
    """Seconds since the turn was received."""
    if moment is None:
        return Cell(None, EMPTY_CELL)
    seconds = moment - turn.received_at
    return Cell(round(seconds, 3), f"{seconds:.3f}")
