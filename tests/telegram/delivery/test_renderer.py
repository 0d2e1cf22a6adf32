"""Long texts are rendered beside the event loop, and look the same."""

import asyncio
import gc
import threading
import time
from collections.abc import Collection

import pytest

from bot.domain import AnswerLinks
from bot.telegram.delivery.renderer import MAX_DIRECT_CHARS, MarkdownRenderer, Snapshot
from bot.telegram.formatting import render
from bot.telegram.formatting.render import BlockCache, render_markdown
from tests.telegram.formatting.documents import load_documents
from tests.telegram.formatting.test_render_cost import LENGTH, build_texts

EVERYTHING = load_documents()["everything"]
SLOW_TEXTS = ("headings", "links", "formulas", "dollars", "blocks of HTML")
MAX_SHARE = 0.5  # of what rendering takes, for the longest time in which the loop does nothing else
MAX_TRIES = 3  # of each text: the machine may be busy


async def test_a_long_answer_looks_as_if_rendered_on_the_loop() -> None:
    cache: BlockCache = {}
    renderer = MarkdownRenderer()
    for end in range(1000, len(EVERYTHING), 3000):
        await renderer.render_snapshot(Snapshot(EVERYTHING[:end]), cache)
    assert await renderer.render_answer(EVERYTHING, cache) == render_markdown(EVERYTHING)


@pytest.mark.parametrize("chars", [MAX_DIRECT_CHARS, MAX_DIRECT_CHARS + 1])
async def test_only_a_short_text_is_rendered_on_the_loop(chars: int, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def convert(*args: object, **kwargs: object) -> tuple[str, list[object]]:
        threads.append(threading.get_ident())
        return "a", []

    monkeypatch.setattr(render, "convert", convert)
    text = ("a " * chars)[:chars]
    await MarkdownRenderer().render_answer(text, {})
    await MarkdownRenderer().render_snapshot(Snapshot(text), {})
    assert [thread == threading.get_ident() for thread in threads] == [chars <= MAX_DIRECT_CHARS] * 2


async def test_which_links_are_real_is_not_looked_up_on_the_loop() -> None:
    threads: list[int] = []

    def find_known(addresses: Collection[str]) -> Collection[str]:
        threads.append(threading.get_ident())
        return addresses

    links = AnswerLinks(find_known, find_known)
    for text in ("See a.com.", "https://a.example", "[a](//a)"):
        await MarkdownRenderer().render_answer(text, {}, links, "Sources:")
        await MarkdownRenderer().render_snapshot(Snapshot(f"{text} ", None, links), {})
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("name", SLOW_TEXTS)
async def test_the_event_loop_goes_on_while_hostile_markdown_is_rendered(name: str) -> None:
    text = build_texts(LENGTH)[name]
    gc.collect()
    for _ in range(MAX_TRIES):
        if await measure_longest_hold(text) < MAX_SHARE:
            return
    pytest.fail("too long")


async def measure_longest_hold(text: str) -> float:
    """Return the longest time in which the loop did nothing, as a share of the processor time of all."""
    started = now = time.process_time()
    longest = 0.0
    async with asyncio.TaskGroup() as tasks:
        rendering = tasks.create_task(MarkdownRenderer().render_answer(text, {}))
        while not rendering.done():
            await asyncio.sleep(0)
            before, now = now, time.process_time()
            longest = max(longest, now - before)
    return longest / (now - started)
