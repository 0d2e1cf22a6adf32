"""The tool `search_web`, of a search engine that the operator has named."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from tools.base import Tool, ToolContext, ToolError, tool
from tools.search.brave import BraveEngine
from tools.search.engine import EngineAnswer, SearchEngine, SearchRefused
from tools.search.hits import MAX_HITS, format_hits
from tools.search.searxng import SearxngEngine

SEARCH_TOOL_NAME = "search_web"
SEARCH_SECONDS = 10.0
PAUSE_SECONDS = 1.0  # between two searches of all chats: engines block who asks more often
MAX_SEARCHES = 4  # of one answer
MAX_QUESTION_CHARS = 300
TOO_MANY = f"No more than {MAX_SEARCHES} searches are made for one answer. Answer with what they found."

_COMMAND_SIGN = re.compile(r"(?:^|(?<=\s))[!?:]+(?=\w)")  # `!!name` would lead an engine elsewhere


@dataclass(slots=True)
class _Pace:
    """Lets one search begin a second, in the order of the calls; of each person one waits in line."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    person_locks: WeakValueDictionary[int, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    next_at: float = 0.0

    async def wait(self, person: int) -> None:
        person_lock = self.person_locks.setdefault(person, asyncio.Lock())
        async with person_lock, self.lock:
            await asyncio.sleep(self.next_at - time.monotonic())
            self.next_at = time.monotonic() + PAUSE_SECONDS


def choose_engine(url: str | None, key: str | None) -> SearchEngine | None:
    """The SearXNG at `url`, else Brave with `key`; None without either."""
    if url is not None:
        return SearxngEngine(url)
    if key is not None:
        return BraveEngine(key)
    return None


def make_search_tool(engine: SearchEngine) -> Tool:
    """The tool that searches with `engine`."""
    pace = _Pace()

    @tool(timeout=3 * SEARCH_SECONDS, repeatable=True, outside=True)
    async def search_web(question: str, context: ToolContext, newest: bool = False) -> str:
        """Search the web. Cite hits by number, like [1].

        Args:
            question: Words to search for.
            newest: Only the last month.
        """
        if context.earlier_calls >= MAX_SEARCHES:
            raise ToolError(TOO_MANY)
        words = " ".join(_COMMAND_SIGN.sub("", question).split())[:MAX_QUESTION_CHARS]
        if not words:
            raise ToolError("The question is empty.")
        await pace.wait(context.person_id)
        answer = await search_in_time(engine, words, newest=newest)
        first_number = context.earlier_calls * MAX_HITS + 1
        return format_hits(answer.hits, first_number=first_number, is_partial=answer.is_partial)

    return search_web


async def search_in_time(engine: SearchEngine, question: str, *, newest: bool = False) -> EngineAnswer:
    """What the engine finds within SEARCH_SECONDS. Raises SearchRefused."""
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            return await engine.search(question, newest=newest)
    except TimeoutError:
        reason = f"the search engine took longer than {SEARCH_SECONDS:g} seconds"
        raise SearchRefused(reason) from None
