"""A tool is read from a typed function, refused when it is defined wrongly, and run with a context."""

import asyncio
import threading
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, TypedDict

import pytest

from tools.arguments import check_arguments
from tools.base import File, Found, Picture, Rule, Tool, ToolContext, ToolError, run_tool, tool
from tools.schemas.signature import ToolDefinitionError


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(TypedDict):
    """A place.

    Attributes:
        city: Its name.
    """

    city: str
    country: str | None


@dataclass
class Window:
    """Opening hours."""

    start: int
    end: int = 24


@tool(timeout=3, repeatable=True, thinking="needs", name="weather")
async def forecast(
    context: ToolContext,
    place: Place,
    days: int = 3,
    unit: Unit = Unit.CELSIUS,
    mood: Literal["dry", "kind"] = "dry",
    hours: Window | None = None,
    names: list[str] | None = None,
    factor: float | None = 1.5,
    note: str = "",
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The weather of
    some days.

    Args:
        place: Where.
        days: How many days, at most 9.
        unit: Of temperatures (default Celsius).
        mood: How it is said.
        hours: Only these hours.
        names: Whom to greet.
        factor: A factor
            on two lines.
        note: Kept along.
        more: Anything else.
    """
    return {
        "place": place,
        "days": days,
        "unit": unit,
        "hours": hours,
        "names": names,
        "at": await context.now(),
    }


def test_a_tool_is_read_from_signature_and_docstring():
    assert (forecast.name, forecast.timeout, forecast.repeatable, forecast.thinking) == (
        "weather",
        3,
        True,
        "needs",
    )
    assert forecast.description == "The weather of some days."
    assert forecast.input_schema == {
        "type": "object",
        "required": ["place"],
        "properties": {
            "place": {
                "description": "Where.",
                "type": "object",
                "properties": {
                    "city": {"description": "Its name.", "type": "string"},
                    "country": {"type": "string", "nullable": True},
                },
                "required": ["city", "country"],
                "additionalProperties": False,
            },
            "days": {"description": "How many days, at most 9 (default 3)", "type": "integer", "default": 3},
            "unit": {
                "description": "Of temperatures (default Celsius).",
                "type": "string",
                "enum": ["c", "f"],
                "default": "c",
            },
            "mood": {
                "description": "How it is said (default dry)",
                "type": "string",
                "enum": ["dry", "kind"],
                "default": "dry",
            },
            "hours": {
                "description": "Only these hours.",
                "type": "object",
                "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}},
                "required": ["start"],
                "additionalProperties": False,
            },
            "names": {"description": "Whom to greet.", "type": "array", "items": {"type": "string"}},
            "factor": {
                "description": "A factor on two lines (default 1.5)",
                "type": "number",
                "default": 1.5,
            },
            "note": {"description": "Kept along.", "type": "string", "default": ""},
            "more": {"description": "Anything else.", "type": "object"},
        },
    }


async def test_a_run_converts_values_to_python_and_the_result_to_compact_json(context):
    arguments = check_arguments(
        forecast,
        {"place": {"city": "Rom", "country": None}, "unit": "F", "hours": {"start": "8"}, "names": ["Zoë"]},
    )
    assert (await run_tool(forecast, arguments, context)).text == (
        '{"place":{"city":"Rom","country":null},"days":3,"unit":"f","hours":{"start":8,"end":24},"names":["Zoë"],'
        '"at":"2026-11-20T10:30:05+00:00"}'
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "Done."),
        ([date(2026, 1, 2), Fraction(1, 3)], '["2026-01-02","1/3"]'),
        (7, "7"),
    ],
)
async def test_any_result_becomes_text(context, result, text):
    @tool
    def give() -> Any:
        """Give it."""
        return result

    assert (await run_tool(give, {}, context)).text == text


async def test_a_plain_function_runs_beside_the_event_loop_on_a_thread_that_does_not_delay_the_exit(context):
    @tool
    def where(word: str) -> list[Any]:
        """Say where this runs.

        Args:
            word: A word.
        """
        thread = threading.current_thread()
        return [word, thread is threading.main_thread(), thread.daemon]

    assert (await run_tool(where, {"word": "hi"}, context)).text == '["hi",false,true]'


async def test_what_a_plain_function_raises_reaches_the_caller(context):
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolError("The shop is closed.")

    @tool
    def stumble() -> str:
        """Stumble."""
        return next(iter([]))

    with pytest.raises(ToolError, match="closed"):
        await run_tool(fail, {}, context)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_tool(stumble, {}, context)


async def test_waiting_for_a_plain_function_can_be_cancelled(context):
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    ended = threading.Event()

    @tool
    def wait() -> None:
        """Wait."""
        loop.call_soon_threadsafe(started.set)
        ended.wait(10)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run_tool(wait, {}, context))
        await started.wait()
        task.cancel()
    assert task.cancelled()
    ended.set()


def undocumented(city: str) -> str:
    return city


def undescribed(city: str) -> str:
    """Weather."""
    return city


def untyped(city) -> str:
    """Weather.

    Args:
        city: Where.
    """
    return str(city)


def starred(*cities: str) -> str:
    """Weather.

    Args:
        cities: Where.
    """
    return str(cities)


def either(city: int | str) -> str:
    """Weather.

    Args:
        city: Where.
    """
    return str(city)


def numbered(city: Literal[1, 2]) -> str:
    """Weather.

    Args:
        city: Where.
    """
    return str(city)


def odd(city: set[str]) -> str:
    """Weather.

    Args:
        city: Where.
    """
    return str(city)


def unfound(city: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Weather.

    Args:
        city: Where.
    """
    return str(city)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (undocumented, "no docstring"),
        (undescribed, r"undescribed\(city\) is not described"),
        (untyped, "has no type"),
        (starred, "one by one"),
        (either, "choice of types"),
        (numbered, "choices are strings"),
        (odd, r"set\[str\] cannot be told"),
        (unfound, "Nowhere"),
    ],
)
def test_a_tool_that_is_written_wrongly_is_refused_when_it_is_defined(function, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        tool(function)


@pytest.mark.parametrize(
    ("name", "description"), [("Big Name", "x"), ("", "x"), ("a" * 65, "x"), ("fine", " ")]
)
def test_a_tool_needs_a_plain_name_and_a_description(name, description):
    with pytest.raises(ToolDefinitionError):
        Tool(name, description, {"type": "object"}, forecast.function)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rule": "always"}, r"weather has rule='always'; write it as Rule\(\"always\"\)"),
        ({"thinking": "perhaps"}, "weather has thinking='perhaps'; it is one of never, may, needs"),
        ({"timeout": -1}, "weather needs a timeout and a length above 0"),
        ({"length": 0}, "weather needs a timeout and a length above 0"),
    ],
)
def test_the_options_of_a_tool_are_checked_when_it_is_defined(options, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        replace(forecast, **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ask": "sometimes"}, "a rule has ask='sometimes'; it is one of never, once, always"),
        ({"ask": "always", "who": "admin"}, "a rule has who='admin'; it is one of asker, admins"),
        ({"when": "x"}, "a rule's when is a JSON Schema of the arguments, not 'x'"),
    ],
)
def test_an_invalid_rule_is_refused(options, complaint):
    with pytest.raises(ToolDefinitionError, match=complaint):
        Rule(**options)


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"\x89PNG\r\n\x1a\n...", Found("", (Picture("image/png", b"\x89PNG\r\n\x1a\n..."),))),
        (bytearray(b"\xff\xd8\xff\xe0"), Found("", (Picture("image/jpeg", b"\xff\xd8\xff\xe0"),))),
        (b"RIFF\x00\n\x00\x00WEBP", Found("", (Picture("image/webp", b"RIFF\x00\n\x00\x00WEBP"),))),
        ("gr\u00fcn".encode(), Found("gr\u00fcn")),
        (b"RIFF\xff\x00\x00\x00WAVE", Found("[12 bytes that are neither text nor a picture]")),
        ({"file": b"\xff\x00"}, Found('{"file":"[2 bytes that are neither text nor a picture]"}')),
    ],
)
async def test_bytes_are_the_picture_or_the_text_that_they_are(
    data: Any, result: Found, context: ToolContext
):
    @tool
    async def read() -> Any:
        """Read."""
        return data

    assert await run_tool(read, {}, context) == result


_PICTURE = Picture("image/png", b"\x89PNG\r\n\x1a\n")
_TABLE = File("table.csv", b"a,b")


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (_PICTURE, Found("", (_PICTURE,))),
        (_TABLE, Found("", files=(_TABLE,))),
        ([_TABLE, _PICTURE, _TABLE], Found("", (_PICTURE,), (_TABLE, _TABLE))),
        ((_TABLE,), Found("", files=(_TABLE,))),
        ([], Found("[]")),
    ],
)
async def test_pictures_and_files_are_what_they_are_alone_and_in_lists(
    context: ToolContext, result: object, found: Found
):
    @tool
    def give() -> Any:
        """Give it."""
        return result

    assert await run_tool(give, {}, context) == found
