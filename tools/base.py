"""What a tool is: `Tool`, the decorator `@tool` that makes one of a typed function, and the context it runs
in.

Everything else in this room, and whoever offers tools to a model, builds on these words. Knows nothing of the
house.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, Literal, Protocol, TypedDict, Unpack, get_args, overload

from tools.schemas.signature import Signature, ToolDefinitionError, parse_signature
from tools.threads import run_in_thread

TOOL_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")

Thinking = Literal["never", "may", "needs"]
ApprovalMode = Literal["never", "once", "always"]
RuleApprover = Literal["asker", "admins"]
DEFAULT_RESULT_CHARS = 8000  # characters of a result, unless a tool says otherwise


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
        """Keep a note and give its number; raises ToolError, saying what to do, when it or the list is too
        long.
        """
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
    """What was said in a chat's conversation and stands in its documents. The house keeps it and fills this
    in.
    """

    async def find(self, words: str) -> list[Passage]:
        """The few passages that fit these words best, the best first; each some 400 characters at most."""
        ...

    async def result(self, number: int) -> str | None:
        """A tool's result of this number that was too long to be read at once, as far as it is kept; None: no
        such.
        """
        ...


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: the bytes of a file that is said to be of this media type, such as `image/png`."""

    media_type: str
    data: bytes


PictureFitter = Callable[[Picture], Awaitable[Picture]]
"""Makes a picture that was found fit for the model; raises ToolError, saying why, where it cannot be shown.
"""


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

    `key` is the same for one call however often it is tried, also after a restart, and no other call's. `see`
    is for whoever runs the tool: with it pictures are made fit for the model; None: nobody would see them.
    `schedules` is None where nothing can be kept for later.
    """

    chat: str
    person: str
    person_id: int
    call_id: str
    notes: Notes
    past: Past
    now: Callable[[], datetime]
    key: str
    see: PictureFitter | None = None
    schedules: Schedules | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A result with pictures, which a model that sees is shown behind the text."""

    text: str
    images: tuple[Picture, ...] = ()


ToolFunction = Callable[[Mapping[str, Any], ToolContext], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether a call asks a person first: never, once a chat, or always; and whether the asker or an admin
    answers.

    `when` is a JSON Schema of arguments: only calls whose arguments fit it ask.
    """

    ask: ApprovalMode = "never"
    when: Mapping[str, Any] | None = None
    who: RuleApprover = "asker"

    def __post_init__(self) -> None:
        _require_one_of("a rule", "ask", self.ask, ApprovalMode)
        _require_one_of("a rule", "who", self.who, RuleApprover)
        if not isinstance(self.when, Mapping | None):
            raise ToolDefinitionError(
                f"a rule's when is a JSON Schema of the arguments, not {self.when!r:.60}"
            )


def _require_one_of(owner: str, field_name: str, value: object, literal_type: Any) -> None:
    if value not in get_args(literal_type):
        raise ToolDefinitionError(
            f"{owner} has {field_name}={value!r:.60}; it is one of {', '.join(get_args(literal_type))}"
        )


NEVER_ASK = Rule()


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """Something the assistant can do.

    `function` takes checked arguments and the context; `timeout` is in seconds and kept by whoever runs the
    tool; `repeatable` says that running it again after a crash does no harm; `thinking`, whether the model
    thinks to use it. `changes`: it changes something beyond the chat's answer; `outside`: what it returns was
    written by strangers; `opens` names the argument that holds an address it opens. `source` and `address`
    say where it comes from, both empty for the house's own; `length` is how many characters of its result the
    model reads. `told` is the schema in the model's words (`tools.reducing`) where it is another than the one
    that arguments are checked against.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    function: ToolFunction
    timeout: float = 20.0
    repeatable: bool = False
    thinking: Thinking = "may"
    rule: Rule = NEVER_ASK
    changes: bool = False
    outside: bool = False
    opens: str | None = None
    source: str = ""
    address: str = ""
    length: int = DEFAULT_RESULT_CHARS
    told: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not TOOL_NAME_PATTERN.fullmatch(self.name):
            raise ToolDefinitionError(
                f"{self.name!r} is no name for a tool: small letters, digits and _, at most 64"
            )
        if not self.description.strip():
            raise ToolDefinitionError(f"{self.name} has no description")
        if self.opens is not None and self.opens not in self.input_schema.get("properties", {}):
            raise ToolDefinitionError(f"{self.name} opens {self.opens}, which is none of its parameters")
        if not isinstance(self.rule, Rule):
            raise ToolDefinitionError(f'{self.name} has rule={self.rule!r:.60}; write it as Rule("always")')
        _require_one_of(self.name, "thinking", self.thinking, Thinking)
        if not (self.timeout > 0 and self.length > 0):
            raise ToolDefinitionError(f"{self.name} needs a timeout and a length above 0")


def definition_of(tool: Tool) -> dict[str, Any]:
    """What is agreed to when a tool is granted, as JSON: what it is called and said to do, what it takes,
    whose words it brings, what it may change, and where it leads. A rule that an admin sets leaves it as it
    is.
    """
    said = ("name", "description", "input_schema", "address", "changes", "outside", "opens")
    definition = {name: getattr(tool, name) for name in said}
    if tool.told is None:
        return definition
    return {**definition, "told": tool.told}


def hash_definition(definition: Mapping[str, Any]) -> str:
    """The fingerprint of a definition."""
    return hashlib.sha256(json.dumps(dict(definition), sort_keys=True).encode()).hexdigest()


def hash_tool(tool: Tool) -> str:
    """The fingerprint that grants and allowances of this tool are bound to."""
    return hash_definition(definition_of(tool))


class ToolOptions(TypedDict, total=False):
    """What `@tool(...)` may say of a tool; see Tool. `name` is another than the function's."""

    name: str
    timeout: float
    repeatable: bool
    thinking: Thinking
    rule: Rule
    changes: bool
    outside: bool
    opens: str
    length: int


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(**said: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **said: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, async or not: description and schema come from its docstring and
    signature.

    A plain function runs in a thread and must be quick, since a thread cannot be stopped. Raises
    ToolDefinitionError.
    """

    def make(function: Callable[..., Any]) -> Tool:
        signature = parse_signature(function, ToolContext)
        words: ToolOptions = {"name": function.__name__, **said}
        call = _make_tool_function(function, signature)
        return Tool(
            description=signature.description, input_schema=signature.input_schema, function=call, **words
        )

    if function is None:
        return make
    return make(function)


def _make_tool_function(function: Callable[..., Any], signature: Signature) -> ToolFunction:
    if inspect.iscoroutinefunction(function):

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await function(**signature.build_kwargs(arguments, context))
    else:

        async def call(arguments: Mapping[str, Any], context: ToolContext) -> object:
            return await run_in_thread(function, **signature.build_kwargs(arguments, context))

    return call


async def run_tool_text(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """The text of what `find` finds; pictures are left out."""
    return (await run_tool(tool, arguments, context)).text


async def run_tool(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Found:
    """Run a tool with arguments that `tools.arguments.check` has passed, and give its result.

    Keeps no time limit and bounds no length: both belong to the caller. Raises ToolError and whatever the
    tool raises.
    """
    result = await tool.function(arguments, context)
    if isinstance(result, Found):
        return result
    if isinstance(result, str):
        return Found(result)
    if result is None:
        return Found("Done.")
    return Found(json.dumps(result, ensure_ascii=False, separators=(",", ":"), default=_to_json_value))


def _to_json_value(value: object) -> object:
    """What JSON has no word for: dataclasses become objects, dates ISO 8601, enums their value, the rest its
    text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return str(value)
