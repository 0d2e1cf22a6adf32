"""Defines what a tool is: `Tool`, the decorator `@tool` that makes one of a function, and the call's context.

The public API for everybody who writes a tool. Everything else in this package, and every caller that offers
tools to a model, builds on these names. Knows nothing of the gateway.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, Protocol, TypedDict, Unpack, get_args, overload

from tools.reduction.results import reduce_result
from tools.results import File as File  # also for those who write tools
from tools.results import Found as Found
from tools.results import Picture as Picture
from tools.results import to_found
from tools.schemas.signature import Signature, ToolDefinitionError, parse_signature
from tools.threads import run_in_thread

TOOL_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}")

Thinking = Literal["never", "may", "needs"]
ApprovalMode = Literal["never", "once", "always"]
RuleApprover = Literal["asker", "admins"]
QUESTION_SECONDS = 120.0  # in which a person answers what a running tool asks
DEFAULT_RESULT_CHARS = 8000  # characters of a result, unless a tool says otherwise


class ToolError(Exception):
    """The tool could not do what was asked; its text is for the model, which reads it as the result."""


@dataclass(frozen=True, slots=True)
class Note:
    """A text that a chat asked to keep.

    `number` counts within the chat; `author` said it, and `made` is when (UTC date).
    """

    number: int
    text: str
    author: str
    made: date


class Notes(Protocol):
    """The notes of one chat; the gateway stores them and implements this."""

    async def add(self, text: str) -> int:
        """Keep a note and return its number.

        Raises ToolError, saying what to do, when the note or the list is too long.
        """
        ...

    async def all(self) -> list[Note]:
        """Every note of the chat, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """An excerpt from a chat's past.

    `source` is who wrote it or the document that holds it, `said` when it came (UTC date).
    """

    source: str
    said: date
    text: str


class Past(Protocol):
    """A chat's earlier messages and documents; the gateway stores them and implements this."""

    async def find(self, words: str) -> list[Passage]:
        """The few passages that match these words best, best first; each has some 400 characters at most."""
        ...

    async def result(self, number: int) -> str | None:
        """The kept part of the tool result with this number; None: there is no such result.

        Only results that were too long to be read at once are kept.
        """
        ...


PictureFitter = Callable[[Picture], Awaitable[Picture]]
"""Makes a picture fit for the model; raises ToolError, saying why, when it cannot be shown."""


@dataclass(frozen=True, slots=True)
class CallPreview:
    """What a call would do: a question, translatable, and what it is about in the person's language.

    `is_own_wish`: the person's own last message says all of it.
    """

    question: str
    details: str
    is_own_wish: bool = False


class Schedules(Protocol):
    """What one person wants said or done later in one chat; the gateway stores it and implements this.

    Each method returns what the model reads, and raises ToolError, saying what to do, when it cannot be done.
    """

    async def add(self, when: str, text: str, *, task: bool) -> str:
        """Schedule `text` to be said, or done as a `task`, at a time in words."""
        ...

    async def preview(self, arguments: Mapping[str, Any]) -> CallPreview:
        """What a call with these arguments would do; its time counts from the person's message."""
        ...

    async def list(self) -> str:
        """Everything scheduled, a line each with its number."""
        ...

    async def remove(self, number: int) -> str:
        """Remove the one with this number."""
        ...


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """What a tool asks the person for whom it runs.

    `asker` is who asks, `text` what; both may be a stranger's. One of `choices` is tapped; without any, or
    with `is_typed`, the answer is a reply. `refusal` says why it must not be put at all.
    """

    asker: str
    text: str
    choices: tuple[str, ...] = ()
    refusal: str | None = None
    is_typed: bool = False

    @property
    def takes_reply(self) -> bool:
        """Whether what the person writes is an answer."""
        return self.is_typed or not self.choices


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A person's answer: the text of a choice, or what they typed; None: they declined, or did not answer."""

    text: str | None = None
    has_declined: bool = False


AskPerson = Callable[[ToolQuestion], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom, when and in which call a tool runs.

    `chat` is opaque; `await now()` is in the person's time zone, and aware of it.
    `key` is the same for one call however often it is tried, also after a restart, and unique to that call.
    `see` makes pictures fit for the model, for the caller that runs the tool; None: nobody would see them.
    `schedules` is None where nothing can be kept for later.
    `show_progress` shows the person who waits a few words, such as "2 of 10"; None: nobody sees them.
    `ask` asks the person, who may take `QUESTION_SECONDS`; None: nobody is there.
    `answer` is the person's to what the call asks, if the turn has waited for it.
    `earlier_calls` counts the calls of the same tool that came before this one in the same turn.
    `delivers`: an admin lets the tool send the person the files that its service returns.
    """

    chat: str
    person: str
    person_id: int
    call_id: str
    notes: Notes
    past: Past
    now: Callable[[], Awaitable[datetime]]
    key: str
    see: PictureFitter | None = None
    schedules: Schedules | None = None
    show_progress: Callable[[str], None] | None = None
    ask: AskPerson | None = None
    answer: str | None = None
    earlier_calls: int = 0
    delivers: bool = False


ToolFunction = Callable[[Mapping[str, Any], ToolContext], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether a call asks a person first, and who answers.

    `ask`: never, once a chat, or always; `who`: the asker or an admin.
    `when` is a JSON Schema of arguments: only calls whose arguments match it ask.
    `only_reads`: an admin vouches that the tool changes nothing, whatever it says of itself.
    """

    ask: ApprovalMode = "never"
    when: Mapping[str, Any] | None = None
    who: RuleApprover = "asker"
    only_reads: bool = False

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
    """A tool that can be called by a model.

    `function` takes checked arguments and the context.
    `timeout` is in seconds; the caller that runs the tool keeps it.
    `repeatable`: running it again after a crash does no harm.
    `thinking`: whether the model thinks to use it.
    `changes`: it changes something beyond the chat's answer.
    `outside`: its result was written by strangers.
    `trusted`: an admin trusts the words of its results all the same.
    `opens` names the argument that holds an address it opens.
    `source` and `address` say where it comes from; both are empty for built-in tools.
    `length` is how many characters of its result the model reads.
    `told` is the schema shown to the model (`tools.schemas.told_schema`) where it differs from
    `input_schema`, which arguments are checked against.
    `fixed` are values that an admin has set for all calls, by name, as people read them: the model neither
    sees nor gives them.
    `sends` says where each argument's value goes in a request, in words.
    `reduction` is the JMESPath of what the model reads of its result; empty: all of it.
    `delivers`: an admin lets it send the person the files that its service returns. A `File` that a function
    of ours returns is sent in any case.
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
    fixed: Mapping[str, str] = field(default_factory=dict)
    sends: Mapping[str, str] = field(default_factory=dict)
    reduction: str = ""
    delivers: bool = False
    trusted: bool = False

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
    """What is agreed to when a tool is granted, as JSON.

    Its name and description, what it takes, whether its words are a stranger's, what it may change and
    where it leads. What an admin sets (`rule`, `delivers`, `trusted`) is not part of it, nor is `told`, which
    follows from it.
    """
    fields = ("name", "description", "input_schema", "address", "changes", "outside", "opens")
    definition = {name: getattr(tool, name) for name in fields}
    for name in ("fixed", "sends"):
        if value := getattr(tool, name):
            definition[name] = dict(value)
    return definition


def hash_definition(definition: Mapping[str, Any], *, with_sends: bool = False) -> str:
    """The hash of a definition as JSON, whatever the order of its keys.

    Unless asked for, `sends` is left out and compared by itself: grants that are older would be lost.
    """
    hashed = {name: value for name, value in definition.items() if with_sends or name != "sends"}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def hash_tool(tool: Tool) -> str:
    """The hash that grants and allowances of this tool are bound to."""
    return hash_definition(definition_of(tool))


class ToolOptions(TypedDict, total=False):
    """The keyword arguments of `@tool(...)`, see Tool; `name` replaces the function's own."""

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
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, async or not; its docstring and signature give description and schema.

    A plain function runs in a thread and must be quick, since a thread cannot be stopped.
    Raises ToolDefinitionError.
    """

    def make(function: Callable[..., Any]) -> Tool:
        signature = parse_signature(function, ToolContext)
        named_options: ToolOptions = {"name": function.__name__, **options}
        call = _make_tool_function(function, signature)
        return Tool(
            description=signature.description,
            input_schema=signature.input_schema,
            function=call,
            **named_options,
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


async def run_tool(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Found:
    """Run a tool with arguments that `tools.arguments.check_arguments` has passed, and return its result.

    Keeps no time limit and bounds no length: both belong to the caller.
    Raises ToolError, and every error that the tool raises.
    """
    result = to_found(await tool.function(arguments, context))
    if not tool.reduction:
        return result
    return await reduce_result(result, tool.reduction)
