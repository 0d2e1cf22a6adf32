"""Renders what turns show, long texts in a thread: the model may write 64 KB, whatever a page has told it to.

Owns the right to render in a thread: one text at a time. Threads take turns at running Python, so each more
would keep the event loop waiting for its turn; one makes it wait for about 5 ms.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bot.domain import AnswerLinks, OutgoingFile
from bot.telegram.formatting.answer_links import MarkedAnswer, append_sources, mark_sources
from bot.telegram.formatting.autolinks import keep_known_links
from bot.telegram.formatting.block_files import build_block_files
from bot.telegram.formatting.render import BlockCache, Piece, clean_text, cut_unfinished, render_markdown
from tools.threads import run_in_thread

RenderedT = TypeVar("RenderedT")

MAX_DIRECT_CHARS = 1024
"""What takes less time to render than the event loop may be held up, unless it may have links."""

_MAY_LINK = re.compile(r"[/\[]|www\.|\.(?:com|net|org)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A turn that still runs.

    `text`: its answer so far (Markdown).
    `status`: a line below it, if any.
    `links`: which links of it are real (None: all).
    """

    text: str = ""
    status: str | None = None
    links: AnswerLinks | None = None


class MarkdownRenderer:
    """Renders for all lanes; the texts of one turn share a cache."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def render_answer(
        self, text: str, cache: BlockCache, links: AnswerLinks | None = None, heading: str = ""
    ) -> tuple[Piece, ...]:
        """Render the answer of a turn that has ended, with its sources below `heading`; `links` None: all."""
        return await self._render(text, partial(render_answer, text, cache, links, heading))

    async def render_snapshot(self, snapshot: Snapshot, cache: BlockCache) -> tuple[Piece, ...]:
        """Render what will not change of an answer, and the status."""
        text = f"{snapshot.text}{snapshot.status or ''}"
        return await self._render(text, partial(render_snapshot, snapshot, cache))

    async def build_files(self, text: str) -> tuple[OutgoingFile, ...]:
        """Build the files of an answer's long code blocks and tables."""
        return await self._render(text, partial(build_block_files, text))

    async def _render(self, text: str, render: Callable[[], RenderedT]) -> RenderedT:
        if len(text) <= MAX_DIRECT_CHARS and not _MAY_LINK.search(text):
            return render()
        async with self._lock:
            return await run_in_thread(render)


def render_answer(text: str, cache: BlockCache, links: AnswerLinks | None, heading: str) -> tuple[Piece, ...]:
    """Render an answer with the links that it may have, and its sources."""
    if links is None:
        return render_markdown(text, cache=cache)
    answer = mark_sources(clean_text(text), links)
    return append_sources(_render_marked(answer, cache), answer.sources, heading)


def render_snapshot(snapshot: Snapshot, cache: BlockCache) -> tuple[Piece, ...]:
    """Render what will not change of an answer with the links that it may have, and the status."""
    text = "\n\n".join(filter(None, (cut_unfinished(snapshot.text), snapshot.status)))
    if snapshot.links is None:
        return render_markdown(text, cache=cache)
    return _render_marked(mark_sources(clean_text(text), snapshot.links), cache)


def _render_marked(answer: MarkedAnswer, cache: BlockCache) -> tuple[Piece, ...]:
    pieces = render_markdown(answer.markdown, cache=cache)
    return tuple(keep_known_links(piece, answer.addresses) for piece in pieces)
