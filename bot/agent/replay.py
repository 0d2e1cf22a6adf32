"""Brings a turn back to where it stood: plays what is stored of it into a fresh loop. Pure."""

from collections import deque
from collections.abc import Generator, Iterable, Mapping

from bot.agent.events import CallModel, LoopEvent, LoopInput, RunTools
from bot.domain import Message, Reply, ToolResult


def replay(
    loop: Generator[LoopEvent, LoopInput, None],
    replies: Iterable[Reply],
    results: Mapping[tuple[int, str], ToolResult],
) -> tuple[LoopEvent, tuple[Message, ...]]:
    """The first event that is not yet answered, and everything said up to it.

    `results` are the known ones by step and call id; a step of which one is missing is handed out as a whole.
    """
    waiting = deque(replies)
    event = next(loop)
    said = [*event.new_messages]
    while True:
        if isinstance(event, CallModel) and waiting:
            event = loop.send(waiting.popleft())
        elif isinstance(event, RunTools) and all((event.step, one.call.id) in results for one in event.calls):
            event = loop.send(tuple(results[event.step, one.call.id] for one in event.calls))
        else:
            return event, tuple(said)
        said.extend(event.new_messages)
