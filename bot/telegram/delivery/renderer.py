"""Renders what turns show, long texts in a thread: the model may write 64 KB, whatever a page has told it to.

Owns the right to render in a thread: one text at a time. Threads take turns at running Python, so each more
would keep the event loop waiting for its turn; one makes it wait for about 5 ms.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bot.telegram.formatting.render import BlockCache, Piece, cut_unfinished, render_markdown
from tools.threads import run_in_thread

MAX_DIRECT_CHARS = 1024
"""What takes less time to render than the event loop may be held up."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A turn that still runs.

    `text`: its answer so far (Markdown).
    `status`: a line below it, if any.
    """

    text: str = ""
    status: str | None = None


class MarkdownRenderer:
    """Renders for all lanes; the texts of one turn share a cache."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def render_answer(self, text: str, cache: BlockCache) -> tuple[Piece, ...]:
        """Render the answer of a turn that has ended."""
        return await self._render(len(text), partial(render_markdown, text, cache=cache))

    async def render_snapshot(self, snapshot: Snapshot, cache: BlockCache) -> tuple[Piece, ...]:
        """Render what will not change of an answer, and the status."""
        chars = len(snapshot.text) + len(snapshot.status or "")
        return await self._render(chars, partial(render_snapshot, snapshot, cache))

    async def _render(self, chars: int, render: Callable[[], tuple[Piece, ...]]) -> tuple[Piece, ...]:
        if chars <= MAX_DIRECT_CHARS:
            return render()
        async with self._lock:
            return await run_in_thread(render)


def render_snapshot(snapshot: Snapshot, cache: BlockCache) -> tuple[Piece, ...]:
    """Render what will not change of an answer, and the status."""
    paragraphs = (cut_unfinished(snapshot.text), snapshot.status)
    return render_markdown("\n\n".join(filter(None, paragraphs)), cache=cache)
