"""How long the tools of a source may take, as admins set it: kept in the source's options, in seconds.

What an admin has not set is as it is by itself: see tools.mcp.time_limits and tools.http.service.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bot.db.tools import sources
from bot.db.tools.sources import Source, SourceKind
from bot.errors import ChangeRefused
from bot.tool_registry.admin_actions import AdminAction, get_source
from bot.translations.translator import Translator, translatable

MIN_SECONDS = 1
MAX_SECONDS = 3600
TIMEOUT_HELP = translatable(
    "Say how many seconds a call may take, and for an MCP server also its start: "
    "NAME 120, NAME start 300, NAME 120 start 300, or NAME default."
)

_WORDS = re.compile(r"(?P<call>\d{1,6})?(?:\s*\bstart\s+(?P<start>\d{1,6}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds of a call without a result or progress, and of a server's start; None: as by itself."""

    call_seconds: float | None = None
    start_seconds: float | None = None

    def to_options(self, kind: SourceKind) -> dict[str, Any]:
        """Return the options of a source of this kind that hold them. Raises ChangeRefused."""
        options = {name: seconds for name, seconds in asdict(self).items() if seconds is not None}
        if kind == "file":
            raise ChangeRefused("A tool of a file says its time limit itself: @tool(timeout=60).")
        if "start_seconds" in options and kind not in {"mcp_http", "mcp_stdio"}:
            raise ChangeRefused("Only an MCP server's start can be limited.")
        if not all(MIN_SECONDS <= seconds <= MAX_SECONDS for seconds in options.values()):
            raise ChangeRefused("A limit is {least} to {most} seconds.", least=MIN_SECONDS, most=MAX_SECONDS)
        return options


DEFAULT_TIME_LIMITS = TimeLimits()


def read_time_limits(options: Mapping[str, Any]) -> TimeLimits:
    """Return what the options of a source hold."""
    return TimeLimits(options.get("call_seconds"), options.get("start_seconds"))


def parse_time_limits(text: str) -> TimeLimits | None:
    """Parse limits as admins write them; None for `default`. Raises ChangeRefused."""
    if text.strip().lower() == "default":
        return None
    match = _WORDS.fullmatch(text.strip())
    if match is None or not (match["call"] or match["start"]):
        raise ChangeRefused(TIMEOUT_HELP)
    seconds = [float(match[name]) if match[name] else None for name in ("call", "start")]
    return TimeLimits(*seconds)


async def set_time_limits(action: AdminAction, name: str, limits: TimeLimits | None) -> Source:
    """Set the limits of a source; what is not named stays, None: all are as by themselves.

    Raises ChangeRefused.
    """
    source = await get_source(action, name)
    before = read_time_limits(source.options)
    after = DEFAULT_TIME_LIMITS
    if limits is not None:
        after = TimeLimits(
            limits.call_seconds or before.call_seconds, limits.start_seconds or before.start_seconds
        )
    new_options = after.to_options(source.kind)
    kept = {key: value for key, value in source.options.items() if key not in asdict(before)}
    changed = replace(source, options={**kept, **new_options})
    if after != before:
        await sources.put(action.tx, changed)
        await action.record_change("set time limits", f"source {name}", asdict(before), asdict(after))
    return changed


def format_time_limits(translate: Translator, source: Source) -> str:
    """Say how long a call and a start may take."""
    from tools.http.service import TIMEOUT_SECONDS
    from tools.mcp.time_limits import DEFAULT_LIMITS, PROGRESS_FACTOR

    limits = read_time_limits(source.options)
    if source.kind not in {"mcp_http", "mcp_stdio"}:
        return translate("a call may take {seconds} s", seconds=f"{limits.call_seconds or TIMEOUT_SECONDS:g}")
    call_seconds = limits.call_seconds or DEFAULT_LIMITS.call_seconds
    text = translate(
        "a call may take {seconds} s, and {longer} s if it reports progress",
        seconds=f"{call_seconds:g}",
        longer=f"{PROGRESS_FACTOR * call_seconds:g}",
    )
    if not limits.start_seconds:
        return text
    return translate("{limits}; the start {seconds} s", limits=text, seconds=f"{limits.start_seconds:g}")
