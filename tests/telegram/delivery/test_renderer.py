"""Long texts are rendered beside the event loop, and look the same."""

import gc
import sys
import threading
import time
from collections.abc import Collection

import pytest

from bot.domain import AnswerLinks
from bot.telegram.delivery.renderer import MAX_DIRECT_CHARS, MarkdownRenderer, Snapshot
from bot.telegram.formatting import render
from bot.telegram.formatting.render import BlockCache, render_markdown
from tests.telegram.formatting.documents import load_documents
from tests.telegram.formatting.test_render_cost import build_texts

EVERYTHING = load_documents()["everything"]
SLOW_TEXTS = ("headings", "links", "formulas", "dollars", "blocks of HTML")
SLOW_CHARS = 16_384  # a step that grows with the text has the same share of a shorter one
MAX_SHARE = 0.2  # of what rendering takes
MAX_TRIES = 5  # what a machine does in between may count as processor time, but not each time at one step


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
def test_no_step_of_rendering_hostile_markdown_holds_up_the_event_loop(name: str) -> None:
    gc.disable()  # the garbage of all tests before would be one step
    try:
        text = build_texts(SLOW_CHARS)[name]
        assert any(measure_longest_step(text) < MAX_SHARE for _ in range(MAX_TRIES))
    finally:
        gc.enable()


def measure_longest_step(text: str) -> float:
    """Return the longest step, in which no other thread can run, as a share of what rendering takes.

    Both are processor time of this thread: other threads and processes change neither.
    """
    started = time.thread_time()
    render_markdown(text)
    total = time.thread_time() - started
    longest = 0.0
    now = time.thread_time()

    def note_step(*_: object) -> None:
        nonlocal longest, now
        before, now = now, time.thread_time()
        longest = max(longest, now - before)

    sys.setprofile(note_step)  # called wherever a function begins or ends, also one of C
    render_markdown(text)
    sys.setprofile(None)
    return longest / total
