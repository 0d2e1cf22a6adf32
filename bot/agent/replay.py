"""Restores a turn: replays its stored replies and results into a fresh loop. Pure."""

from collections import deque
from collections.abc import Generator, Iterable, Mapping

from bot.agent.events import CallModel, LoopEvent, LoopInput, RunTools
from bot.domain import Message, Reply, ToolResult


def replay(
    loop: Generator[LoopEvent, LoopInput, None],
    replies: Iterable[Reply],
    results: Mapping[tuple[int, str], ToolResult],
) -> tuple[LoopEvent, tuple[Message, ...]]:
    """The first event that is not answered yet, and all messages up to and including it.

    `results` are those known, by step and call id; a step that lacks one of its results is returned as a
    whole.
    """
    unused_replies = deque(replies)
    event = next(loop)
    messages = [*event.new_messages]
    while True:
        answer = _take_stored_answer(event, unused_replies, results)
        if answer is None:
            return event, tuple(messages)
        event = loop.send(answer)
        messages.extend(event.new_messages)


def _take_stored_answer(
    event: LoopEvent, unused_replies: deque[Reply], results: Mapping[tuple[int, str], ToolResult]
) -> LoopInput | None:
    """What was answered to an event; None if nothing was, or not all of it."""
    match event:
        case CallModel() if unused_replies:
            return unused_replies.popleft()
        case RunTools():
            keys = [(event.step, checked.call.id) for checked in event.calls]
            if all(key in results for key in keys):
                return tuple(results[key] for key in keys)
    return None
