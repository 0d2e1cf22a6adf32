"""What a tool is: `Tool`, the decorator `@tool` that makes one of a typed function, and the context it runs in.

Everything else in this room, and whoever offers tools to a model, builds on these words. Knows nothing of the house.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, Protocol, overload

from tools.schema import Signature, ToolDefinitionError, signature_of
from tools.threads import in_thread

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

Thinking = Literal["never", "may", "needs"]


class ToolError(Exception):
    """A tool could not do it; the text is written for the model, which reads it as the result."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a chat asked to keep: its number in that chat, who said it and when (UTC date)."""

    number: int
    text: str
    author: str
    made: date


class Notes(Protocol):
    """The notes of one chat. The house keeps them and fills this in."""

    async def add(self, text: str) -> int:
        """Keep a note and give its number; raises ToolError, saying what to do, when it or the list is too long."""
        ...

    async def all(self) -> list[Note]:
        """Every note of the chat, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """Some words of a chat's past: who said them or which document holds them, and when they came (UTC date)."""

    source: str
    said: date
    text: str


class Past(Protocol):
    """What was said in a chat's conversation and stands in its documents. The house keeps it and fills this in."""

    async def find(self, words: str) -> list[Passage]:
        """The few passages that fit these words best, the best first; each some 400 characters at most."""
        ...


class Schedules(Protocol):
    """What one person wants said or done later in one chat. The house keeps it and fills this in.

    Each gives what the model reads, and raises ToolError, saying what to do, where it cannot be.
    """

    async def add(self, when: str, text: str, *, task: bool) -> str:
        """Have `text` said, or done as a `task`, at a time in words."""
        ...

    async def list(self) -> str:
        """All there is, a line each with its number."""
        ...

    async def remove(self, number: int) -> str:
        """Take one back."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom, when and in which call a tool runs. `chat` is opaque; `now()` is aware of its time zone.

    `schedules` is None where nothing can be kept for later.
    """

    chat: str
    person: str
    person_id: int
    call_id: str
    notes: Notes
    past: Past
    now: Callable[[], datetime]
    schedules: Schedules | None = None


ToolFunction = Callable[[Mapping[str, Any], ToolContext], Awaitable[object]]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """Something the assistant can do.

    `function` takes checked arguments and the context; `timeout` is in seconds and kept by whoever runs the tool;
    `repeatable` says that running it again after a crash does no harm; `thinking`, whether the model thinks to use it.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    function: ToolFunction
    timeout: float = 20.0
    repeatable: bool = False
    thinking: Thinking = "may"

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ToolDefinitionError(f"{self.name!r} is no name for a tool: small letters, digits and _, at most 64")
        if not self.description.strip():
            raise ToolDefinitionError(f"{self.name} has no description")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, timeout: float = 20.0, repeatable: bool = False, thinking: Thinking = "may"
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float = 20.0,
    repeatable: bool = False,
    thinking: Thinking = "may",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, async or not: description and schema come from its docstring and signature.

    A plain function runs in a thread and must be quick, since a thread cannot be stopped. Raises ToolDefinitionError.
    """

    def make(function: Callable[..., Any]) -> Tool:
        signature = signature_of(function, ToolContext)
        return Tool(
            name=name or function.__name__,
            description=signature.description,
            input_schema=signature.input_schema,
            function=_caller(function, signature),
            timeout=timeout,
            repeatable=repeatable,
            thinking=thinking,
        )

    return make if function is None else make(function)


def _caller(function: Callable[..., Any], signature: Signature) -> ToolFunction:
    if inspect.iscoroutinefunction(function):

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await function(**signature.read(arguments, context))
    else:

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await in_thread(function, **signature.read(arguments, context))

    return call


async def run(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """Run a tool with arguments that `tools.arguments.check` has passed, and give its result as text.

    Keeps no time limit and bounds no length: both belong to the caller. Raises ToolError and whatever the tool raises.
    """
    result = await tool.function(arguments, context)
    if isinstance(result, str):
        return result
    if result is None:
        return "Done."
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """What JSON has no word for: dataclasses become objects, dates ISO 8601, enums their value, the rest its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else str(value)
